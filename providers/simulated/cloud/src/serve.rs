//! Connections and exchanges: TLS, HTTP/1.1 with keep-alive, and the faults that belong to the wire.
//! A fault that waits lets its exchange run in a task of its own: a client that goes away in the meantime does not
//! undo what the cloud was going to do.

use std::{convert::Infallible, io, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::stream;
use http::{HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited, StreamBody, combinators::BoxBody};
use hyper::{
    body::{Frame, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{net::TcpStream, time::sleep};
use tokio_rustls::TlsAcceptor;

use crate::{
    admin, api,
    clock::http_date,
    echo,
    faults::{Fault, Location, Moment},
    reply::{Refusal, Reply},
    request::Request,
    shared::{Held, Shared},
};

/// Largest request body.
const BODY_MAX: usize = 4 * 1024 * 1024;

type Body = BoxBody<Bytes, io::Error>;

/// The connection is to be reset instead of answered.
#[derive(Debug)]
struct Reset;

impl std::fmt::Display for Reset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the fault plan resets this connection")
    }
}

impl std::error::Error for Reset {}

/// Serves one connection until it ends.
pub(crate) async fn connection(shared: Arc<Shared>, acceptor: TlsAcceptor, stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    if shared.state().behaviour.offline {
        let _ = stream.set_zero_linger();
        return;
    }
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let service = service_fn(|request| Box::pin(exchange(Arc::clone(&shared), request)));
    // No timeout for idle connections: a client must not race with it.
    let mut connection =
        http1::Builder::new().header_read_timeout(None).serve_connection(TokioIo::new(stream), service);
    // Without hyper's own shutdown, so that a reset is a reset and not a polite end of TLS.
    let ended = std::future::poll_fn(|context| connection.poll_without_shutdown(context)).await;
    let mut stream = connection.into_parts().io.into_inner();
    match ended {
        Err(error) if is_reset(&error) => {
            let _ = stream.get_ref().0.set_zero_linger();
        }
        Err(_) => {}
        Ok(()) => {
            let _ = tokio::io::AsyncWriteExt::shutdown(&mut stream).await;
        }
    }
}

fn is_reset(error: &hyper::Error) -> bool {
    std::error::Error::source(error).is_some_and(|source| source.is::<Reset>())
}

async fn exchange(shared: Arc<Shared>, request: http::Request<Incoming>) -> Result<Response<Body>, Reset> {
    let (head, body) = request.into_parts();
    let Ok(body) = Limited::new(body, BODY_MAX).collect().await else {
        let refusal = Refusal::new(413, "body_too_large", "the body is larger than 4 MiB or was cut off");
        return Ok(response(&shared, refusal.into(), None));
    };
    let request = Request {
        method: head.method.as_str().to_owned(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or("").to_owned(),
        headers: head.headers,
        body: body.to_bytes(),
    };
    if request.path.starts_with("/_sim/") {
        return Ok(response(&shared, admin::answer(&shared, &request), None));
    }
    let fault = {
        let mut state = shared.state();
        if state.behaviour.offline {
            return Err(Reset);
        }
        state.plan.decide(&request.method, &request.path).unwrap_or_default()
    };
    let waits = fault.hold.is_some() || fault.delay_ms > 0 || fault.delay_after_ms > 0;
    let truncate = fault.truncate;
    let reply = if waits {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move { carry_out(&shared, &request, &fault).await }).await.unwrap_or(Err(Reset))
    } else {
        carry_out(&shared, &request, &fault).await
    };
    Ok(response(&shared, reply?, truncate))
}

/// The exchange as the fault has it, in the order that `Fault` documents.
async fn carry_out(shared: &Shared, request: &Request, fault: &Fault) -> Result<Reply, Reset> {
    let seq = {
        let mut state = shared.state();
        let now = state.clock.now();
        state.record.begin(request, now)
    };
    pause(fault.delay_ms).await;
    hold(shared, request, fault, Moment::Before).await?;
    if fault.drop == Some(Moment::Before) {
        return Err(Reset);
    }
    let done = match fault.status {
        Some(_) if !fault.commit => None,
        _ => Some(api::answer(&mut shared.state(), &shared.catalogue, request, seq, fault)),
    };
    let reply = rewrite(shared, request, fault, done);
    pause(fault.delay_after_ms).await;
    hold(shared, request, fault, Moment::After).await?;
    if fault.drop == Some(Moment::After) {
        return Err(Reset);
    }
    shared.state().record.end(seq, reply.status);
    Ok(reply)
}

async fn pause(ms: u64) {
    if ms > 0 {
        sleep(Duration::from_millis(ms)).await;
    }
}

async fn hold(shared: &Shared, request: &Request, fault: &Fault, moment: Moment) -> Result<(), Reset> {
    if fault.hold != Some(moment) {
        return Ok(());
    }
    let held = Held { method: request.method.clone(), path: request.path.clone(), moment };
    if shared.holds.hold(held).await { Ok(()) } else { Err(Reset) }
}

fn rewrite(shared: &Shared, request: &Request, fault: &Fault, done: Option<Reply>) -> Reply {
    let mut reply = match (fault.status, done) {
        (None, Some(done)) => done,
        (status, _) => {
            let code = fault.code.as_deref().unwrap_or("injected");
            let message = fault.message.as_deref().unwrap_or("an injected fault");
            let status = status.unwrap_or(500);
            if status < 400 {
                Reply::json(status, &json!({}))
            } else {
                Refusal::new(status, code, message).into()
            }
        }
    };
    if let Some(form) = fault.accepted
        && reply.is_success()
    {
        reply = accepted(shared, form, &reply);
    }
    if let Some(body) = &fault.body {
        reply.body = match body {
            Value::String(text) => text.clone().into_bytes().into(),
            other => serde_json::to_vec(other).unwrap_or_default().into(),
        };
    }
    if let Some(form) = &fault.echo {
        reply = echo::spread(request, form, &fault.echo_at, reply);
    }
    for (name, value) in &fault.headers {
        reply.headers.retain(|(present, _)| !present.eq_ignore_ascii_case(name));
        reply.headers.push((name.clone(), value.clone()));
    }
    reply
}

/// 202 in place of a success.
fn accepted(shared: &Shared, form: Location, reply: &Reply) -> Reply {
    let body = reply.body_json().unwrap_or_default();
    let action = body.pointer("/action/id").and_then(Value::as_str).map(|id| format!("/v1/actions/{id}"));
    let accepted = Reply { headers: reply.headers.clone(), ..Reply::empty(202) };
    match (form, action) {
        (Location::Relative, Some(path)) => accepted.with("location", path),
        (Location::Absolute, Some(path)) => accepted.with("location", format!("{}{path}", shared.origin)),
        _ => accepted,
    }
}

fn response(shared: &Shared, reply: Reply, truncate: Option<usize>) -> Response<Body> {
    let date = {
        let state = shared.state();
        http_date(state.clock.now().saturating_add(state.behaviour.date_offset_ms))
    };
    let length = reply.body.len();
    let body = match truncate.filter(|most| *most < length) {
        Some(most) => half(reply.body.slice(..most)),
        None => Full::new(reply.body).map_err(|never: Infallible| match never {}).boxed(),
    };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    if !reply.content_type.is_empty() {
        headers.insert(http::header::CONTENT_TYPE, HeaderValue::from_static(reply.content_type));
    }
    if reply.status != 204 {
        headers.insert(http::header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    if let Ok(date) = HeaderValue::from_str(&date) {
        headers.insert(http::header::DATE, date);
    }
    for (name, value) in reply.headers {
        let Ok(name) = HeaderName::from_bytes(name.as_bytes()) else { continue };
        match HeaderValue::from_bytes(value.as_bytes()) {
            Ok(_) if value.is_empty() => drop(headers.remove(name)),
            Ok(value) => drop(headers.insert(name, value)),
            Err(_) => {}
        }
    }
    response
}

/// A body that breaks off. The first part is flushed before the end, because the task yields in between.
fn half(first: Bytes) -> Body {
    let rest = stream::once(async {
        tokio::task::yield_now().await;
        Err(io::Error::other("the fault plan cuts this answer"))
    });
    let frames = futures::StreamExt::chain(stream::iter([Ok(Frame::data(first))]), rest);
    BodyExt::boxed(StreamBody::new(frames))
}
