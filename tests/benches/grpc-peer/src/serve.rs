//! The child: a gRPC server on a unix socket.

use crate::message::{POLL, PollReply, PollRequest, SERVICE};
use serde::Deserialize;
use std::convert::Infallible;
use std::future::{Future, ready};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::body::Body;
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;

/// Says `ready` on standard output once it listens; ends when standard input does.
pub fn run(socket: &str) -> Result<(), Box<dyn std::error::Error>> {
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
    // What a plugin takes that sets nothing.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = tokio::net::UnixListener::bind(socket)?;
        println!("ready");
        tonic::transport::Server::builder()
            .add_service(Operations)
            .serve_with_incoming(UnixListenerStream::new(listener))
            .await?;
        Ok(())
    })
}

#[derive(Clone)]
struct Operations;

impl NamedService for Operations {
    const NAME: &'static str = SERVICE;
}

impl tower::Service<http::Request<Body>> for Operations {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async move {
            if request.uri().path() != POLL {
                return Ok(Status::unimplemented("no such method").into_http());
            }
            Ok(Grpc::new(ProstCodec::default()).unary(Polls, request).await)
        })
    }
}

struct Polls;

impl UnaryService<PollRequest> for Polls {
    type Response = PollReply;
    type Future = std::future::Ready<Result<Response<PollReply>, Status>>;

    fn call(&mut self, request: Request<PollRequest>) -> Self::Future {
        ready(poll(request.into_inner()).map(Response::new))
    }
}

#[derive(Deserialize)]
struct Begun {
    server: String,
    action: Option<String>,
    boots: i64,
}

#[derive(Deserialize)]
struct Action {
    state: String,
}

#[derive(Deserialize)]
struct Server {
    state: String,
    boots: i64,
}

/// What the simulated provider does.
fn poll(request: PollRequest) -> Result<PollReply, Status> {
    let begun: Begun = parse(&request.resume_token)?;
    if let Some(id) = &begun.action {
        let action: Action = parse(&read("action", id))?;
        if action.state != "success" {
            return Ok(PollReply { message: "the action is running".to_owned(), ..PollReply::default() });
        }
    }
    let seen: Server = parse(&read("server", &begun.server))?;
    if seen.state != "running" || (request.kind == "HostReboot" && seen.boots <= begun.boots) {
        return Ok(PollReply { message: format!("the server is {}", seen.state), ..PollReply::default() });
    }
    Ok(PollReply { state: 1, ..PollReply::default() })
}

/// What the service would say, with the arguments written as a request would carry them.
fn read(call: &str, id: &str) -> String {
    let args = serde_json::json!({ "id": id }).to_string();
    std::hint::black_box(&args);
    match call {
        "action" => r#"{"state":"success"}"#.to_owned(),
        _ => r#"{"boots":5,"created":"2026-01-02T03:04:05Z","state":"running"}"#.to_owned(),
    }
}

fn parse<T: for<'a> Deserialize<'a>>(text: &str) -> Result<T, Status> {
    serde_json::from_str(text).map_err(|error| Status::internal(error.to_string()))
}
