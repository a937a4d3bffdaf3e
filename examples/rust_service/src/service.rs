//! Connections, limits and routes.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, FromRequest, Request, State};
use axum::http::{header, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use msda::Handle;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::compute::{self, Operation};
use crate::refusal::Refusal;

/// What one client can take from the others.
#[derive(Clone, Copy)]
pub struct Limits {
    /// The most bytes of a body, of what it unpacks to, and of a result.
    pub bytes: usize,
    /// For the head of a request, for its body, for a turn, and for a computation.
    pub wait: Duration,
    /// Connections at once.
    pub connections: usize,
}

/// One is shared by all connections.
pub struct Service {
    handle: Handle,
    limits: Limits,
    connections: Arc<Semaphore>,
    /// A computation uses all threads of the handle; a second one reads and writes its arrays meanwhile.
    turns: Arc<Semaphore>,
    help: &'static str,
}

impl Service {
    pub fn new(handle: Handle, limits: Limits, help: &'static str) -> Arc<Self> {
        Arc::new(Service {
            handle,
            limits,
            connections: Arc::new(Semaphore::new(limits.connections)),
            turns: Arc::new(Semaphore::new(2)),
            help,
        })
    }

    /// Takes connections until the task is aborted. Those beyond the limit wait in the listener's queue.
    pub async fn accept(self: Arc<Self>, listener: TcpListener) {
        let router = Router::new()
            .route("/", get(|State(service): State<Arc<Service>>| async move { service.help }))
            .route("/health", get(|| async { "ok\n" }))
            .route("/forward", post(|state, request| execute(state, request, Operation::Forward)))
            .route("/backward", post(|state, request| execute(state, request, Operation::Backward)))
            .layer(DefaultBodyLimit::max(self.limits.bytes))
            .with_state(self.clone());
        loop {
            let place = self.connections.clone().acquire_owned().await.expect("never closed");
            match listener.accept().await {
                Ok((stream, _)) => {
                    let connection = serve(stream, router.clone(), self.limits.wait);
                    tokio::spawn(async move {
                        connection.await;
                        drop(place);
                    });
                }
                // Out of file descriptors, or a client that left: later ones may do better.
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    }

    /// Returns when all connections have ended; none lasts longer than its limits.
    pub async fn drain(&self) {
        let all = u32::try_from(self.limits.connections).expect("at most 65536");
        let _ = self.connections.acquire_many(all).await;
    }
}

/// One request. It ends after the sum of its waits even if the client does not read the answer.
async fn serve(stream: TcpStream, router: Router, wait: Duration) {
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(wait)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let _ = timeout(wait * 5, connection).await; // a failure is the client's, who has left
}

async fn execute(
    State(service): State<Arc<Service>>,
    request: Request,
    operation: Operation,
) -> Result<Response, Response> {
    let Limits { bytes, wait, .. } = service.limits;
    let seconds = wait.as_secs();
    let body = timeout(wait, Bytes::from_request(request, &()))
        .await
        .map_err(|_| {
            let message = format!("the body did not arrive in {seconds} s");
            Refusal::new(StatusCode::REQUEST_TIMEOUT, message).into_response()
        })?
        .map_err(|rejection| match rejection.status() {
            StatusCode::PAYLOAD_TOO_LARGE => {
                Refusal::too_large(format!("the body has more than {bytes} bytes")).into_response()
            }
            _ => rejection.into_response(),
        })?;
    let turn = timeout(wait, service.turns.clone().acquire_owned()).await.map_err(|_| {
        let message = format!("no turn in {seconds} s: too many requests");
        Refusal::new(StatusCode::SERVICE_UNAVAILABLE, message).into_response()
    })?;
    let computed = tokio::task::spawn_blocking(move || {
        let _turn = turn; // also when the client has left, as the computation goes on
        compute::answer(&service.handle, operation, &body, bytes, wait)
    });
    match computed.await {
        Ok(Ok(npz)) => Ok(([(header::CONTENT_TYPE, "application/zip")], npz).into_response()),
        Ok(Err(refusal)) => Err(refusal.into_response()),
        Err(_) => Err(Refusal::internal("the request could not be computed").into_response()),
    }
}
