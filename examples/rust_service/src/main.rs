//! An HTTP service that computes multi-scale deformable attention: .npz in, .npz out. `--help` says how to use it.

mod arrays;
mod compute;
mod refusal;
mod service;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::signal::unix::{signal, SignalKind};

use service::{Limits, Service};

const HELP: &str = "\
Computes multi-scale deformable attention over HTTP.

    rust_service [--listen ADDRESS] [--body-mib N] [--seconds N] [--connections N] [--threads N]

  --listen ADDRESS   where to listen; port 0 takes a free one    (127.0.0.1:8080)
  --body-mib N       largest body, largest content of its .npz
                     and largest result, in MiB                  (16)
  --seconds N        longest wait for a request, for its body and
                     for a turn, and longest computation         (10)
  --connections N    connections at once; more wait              (128)
  --threads N        threads of one computation; 0: all there are (0)
";

const USE: &str = "\
POST /forward     an .npz with level_hw, points, value, and coord and weight or reference, offset and logit;
                  answers an .npz with output
POST /backward    the same with grad_output; answers an .npz with grad_value and the gradients of the others
GET  /health      answers ok

level_hw [L,2] and points [L] are int32 or int64, all others float32 or float64, one type in a request:
value [B,S,M,D], coord [B,Q,M,K,2], weight [B,Q,M,K], reference [B,Q,L,2 or 4], offset as coord, logit as
weight, grad_output [B,Q,M,D]; K is the sum of points. Other arrays are ignored.
The names of models are taken, too: spatial_shapes [L,2], sampling_locations [B,Q,M,L,P,2] and
attention_weights [B,Q,M,L,P] for level_hw, coord and weight, without points; level_start_index [L].

    curl --data-binary @request.npz http://ADDRESS/forward --output result.npz
";

struct Options {
    listen: SocketAddr,
    limits: Limits,
    threads: i32,
}

/// What the arguments say; None asks for help.
fn parse(arguments: impl Iterator<Item = OsString>) -> Result<Option<Options>, lexopt::Error> {
    use lexopt::prelude::*;
    let mut options = Options {
        listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
        limits: Limits { bytes: 16 << 20, wait: Duration::from_secs(10), connections: 128 },
        threads: 0,
    };
    let mut parser = lexopt::Parser::from_args(arguments);
    while let Some(argument) = parser.next()? {
        match argument {
            Long("listen") => options.listen = parser.value()?.parse()?,
            Long("body-mib") => {
                options.limits.bytes =
                    parser.value()?.parse_with(|text| between(text, 1, 1024))? << 20
            }
            Long("seconds") => {
                let seconds = parser.value()?.parse_with(|text| between(text, 1, 3600))?;
                options.limits.wait = Duration::from_secs(seconds as u64);
            }
            Long("connections") => {
                options.limits.connections =
                    parser.value()?.parse_with(|text| between(text, 1, 65536))?
            }
            Long("threads") => {
                options.threads = parser.value()?.parse_with(|text| between(text, 0, 1024))? as i32
            }
            Short('h') | Long("help") => return Ok(None),
            other => return Err(other.unexpected()),
        }
    }
    Ok(Some(options))
}

fn between(text: &str, least: usize, most: usize) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| format!("must be {least} to {most}"))
}

/// Serves until SIGINT or SIGTERM, then ends the requests that it has.
async fn run(options: Options) -> Result<(), Box<dyn std::error::Error>> {
    let handle = msda::Handle::cpu(options.threads)?;
    let listener = TcpListener::bind(options.listen)
        .await
        .map_err(|error| format!("--listen {}: {error}", options.listen))?;
    // Before anybody knows the address, so that a signal at once ends it in order, too.
    let (mut interrupt, mut terminate) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    println!("listening on {}", listener.local_addr()?);
    let service = Service::new(handle, options.limits, USE);
    let accepting = tokio::spawn(service.clone().accept(listener));
    std::future::poll_fn(|context| match interrupt.poll_recv(context) {
        std::task::Poll::Pending => terminate.poll_recv(context),
        ready => ready,
    })
    .await;
    accepting.abort();
    println!("ending the requests that are there");
    service.drain().await;
    Ok(())
}

fn main() -> ExitCode {
    let outcome = match parse(std::env::args_os().skip(1)) {
        Ok(Some(options)) => tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(Into::into)
            .and_then(|runtime| runtime.block_on(run(options))),
        Ok(None) => {
            print!("{HELP}\n{USE}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("rust_service: {error}; --help shows what there is");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rust_service: {error}");
            ExitCode::FAILURE
        }
    }
}
