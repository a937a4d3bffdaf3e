//! Why a request gets no result: a status of HTTP and one line of text.

use axum::http::{header, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

#[derive(Debug)]
pub struct Refusal {
    status: StatusCode,
    message: String,
}

impl Refusal {
    pub fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Refusal { status, message: message.into() }
    }
    /// The request is not what the service reads.
    pub fn bad(message: impl Into<String>) -> Self {
        Refusal::new(StatusCode::BAD_REQUEST, message)
    }
    pub fn too_large(message: impl Into<String>) -> Self {
        Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, message)
    }
    /// The request is readable and asks for something that is not computed.
    pub fn unprocessable(message: impl Into<String>) -> Self {
        Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, message)
    }
    pub fn internal(message: impl Into<String>) -> Self {
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, message)
    }
}

impl From<msda::Error> for Refusal {
    fn from(error: msda::Error) -> Self {
        match error.status() {
            msda::Status::INVALID_ARGUMENT | msda::Status::UNSUPPORTED => {
                Refusal::unprocessable(error.message())
            }
            _ => Refusal::internal(error.message()),
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status, format!("{}\n", self.message)).into_response();
        if self.status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
