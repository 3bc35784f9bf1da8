//! The TLS server under the proxy and the BMC: reads each request whole, hands it to a handler, sends what it says.
//! The handler may also say that the connection ends without an answer, or in the middle of one.

use std::{future::Future, io, net::SocketAddr, sync::Arc};

use anyhow::{Context, Result};
use bytes::Bytes;
use futures::{Stream, StreamExt, stream};
use http::{Request, Response, header::CONTENT_LENGTH};
use http_body_util::{BodyExt, Full, Limited, StreamBody, combinators::BoxBody};
use hyper::{body::Frame, body::Incoming, service::service_fn};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use tokio::{
    net::TcpListener,
    task::{AbortHandle, JoinSet},
};
use tokio_rustls::TlsAcceptor;

/// Largest request body that is read.
const REQUEST_CAP: usize = 4 << 20;

/// What the client gets.
pub(crate) enum Answer {
    Whole(Response<Bytes>),
    /// The head and half of the body, then the connection ends. A reply without a body ends before its head.
    CutOff(Response<Bytes>),
    /// The connection ends.
    Nothing,
}

/// A server on an ephemeral loopback port; ends, with its connections, when dropped.
pub(crate) struct Server {
    address: SocketAddr,
    accepting: AbortHandle,
}

impl Server {
    /// Must be called within a tokio runtime, on which the server then runs.
    pub async fn start<H, F>(tls: Arc<ServerConfig>, handler: H) -> Result<Server>
    where
        H: Fn(Request<Bytes>) -> F + Clone + Send + Sync + 'static,
        F: Future<Output = Answer> + Send + 'static,
    {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("binding a loopback port")?;
        let address = listener.local_addr()?;
        let accepting = tokio::spawn(accept(listener, TlsAcceptor::from(tls), handler)).abort_handle();
        Ok(Server { address, accepting })
    }

    pub fn origin(&self) -> String {
        format!("https://{}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept<H, F>(listener: TcpListener, tls: TlsAcceptor, handler: H)
where
    H: Fn(Request<Bytes>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Answer> + Send + 'static,
{
    // Owned by this task, so that aborting it ends the connections too.
    let mut connections = JoinSet::new();
    loop {
        // A failed accept is the client's loss (or a passing lack of descriptors); the server goes on.
        let Ok((tcp, _)) = listener.accept().await else { continue };
        while connections.try_join_next().is_some() {}
        let (tls, handler) = (tls.clone(), handler.clone());
        connections.spawn(async move {
            let Ok(stream) = tls.accept(tcp).await else { return };
            let service = service_fn(move |request| serve_one(request, handler.clone()));
            // An error here is what a handler asked for, or a client that left.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn serve_one<H, F>(
    request: Request<Incoming>,
    handler: H,
) -> io::Result<Response<BoxBody<Bytes, io::Error>>>
where
    H: Fn(Request<Bytes>) -> F,
    F: Future<Output = Answer>,
{
    let (head, body) = request.into_parts();
    let body = Limited::new(body, REQUEST_CAP).collect().await.map_err(io::Error::other)?.to_bytes();
    match handler(Request::from_parts(head, body)).await {
        Answer::Whole(reply) => Ok(reply.map(|body| Full::new(body).map_err(|never| match never {}).boxed())),
        Answer::CutOff(reply) if reply.body().is_empty() => Err(ended()),
        Answer::CutOff(mut reply) => {
            let length = reply.body().len();
            reply.headers_mut().insert(CONTENT_LENGTH, length.into());
            Ok(reply.map(|body| BodyExt::boxed(StreamBody::new(half_and_then_the_end(body)))))
        }
        Answer::Nothing => Err(ended()),
    }
}

fn half_and_then_the_end(body: Bytes) -> impl Stream<Item = io::Result<Frame<Bytes>>> {
    let half = Frame::data(body.slice(..body.len() / 2));
    let end = async {
        // While the body waits, what is there so far is flushed.
        tokio::task::yield_now().await;
        Err(ended())
    };
    stream::iter([Ok(half)]).chain(stream::once(end))
}

fn ended() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the connection ends here")
}
