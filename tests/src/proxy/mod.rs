//! A recording proxy before any HTTPS server: it tells which requests reached the server, and what it answered,
//! whatever the client was made to believe by the faults on the way.
//! Neither bodies nor header values are kept, only the SHA-256 of bodies and the `Action` word of forms: what passes may
//! be secret.

mod fault;
mod record;

use std::sync::{Arc, Mutex, MutexGuard};

use anyhow::{Context, Result};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, Request, Response, StatusCode,
    header::{CONNECTION, CONTENT_LENGTH, RETRY_AFTER, TRANSFER_ENCODING},
};

pub use fault::{Fault, Gate, Kind};
pub use record::{Record, Seen};

use crate::{
    client::{Client, Reply},
    serve::{Answer, Server},
    tls::RunCa,
};

/// The proxy; it ends when dropped. Each request goes to the upstream over a connection of its own, in a task of its
/// own: a client that goes away changes nothing about what reaches the server, and the record is made all the same.
pub struct Proxy {
    server: Server,
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
}

struct State {
    upstream: Client,
    faults: Vec<Fault>,
    records: Vec<Record>,
}

impl Proxy {
    /// A proxy before `upstream` (an `https` origin with a certificate under `upstream_ca_pem`). Its own certificate
    /// is under `ca`. Must be called within the tokio runtime on which it is to run.
    pub async fn start(upstream: &str, upstream_ca_pem: &str, ca: &RunCa) -> Result<Proxy> {
        let upstream = Client::new(upstream, upstream_ca_pem).context("the proxy's upstream")?;
        let state = State { upstream, faults: Vec::new(), records: Vec::new() };
        let shared = Arc::new(Shared { state: Mutex::new(state) });
        let handling = shared.clone();
        let tls = ca.issue("recording proxy", &[])?.server;
        let server = Server::start(tls, move |request| handle(handling.clone(), request)).await?;
        Ok(Proxy { server, shared })
    }

    /// Where clients are to connect, `https://127.0.0.1:port`.
    pub fn origin(&self) -> String {
        self.server.origin()
    }

    /// Adds a fault. The first fault that strikes a request wins.
    pub fn fault(&self, fault: Fault) {
        self.shared.lock().faults.push(fault);
    }

    pub fn clear_faults(&self) {
        self.shared.lock().faults.clear();
    }

    /// Further requests go here.
    pub fn set_upstream(&self, upstream: &str, upstream_ca_pem: &str) -> Result<()> {
        let upstream = Client::new(upstream, upstream_ca_pem).context("the proxy's upstream")?;
        self.shared.lock().upstream = upstream;
        Ok(())
    }

    /// Everything that passed or was stopped so far, in the order of arrival.
    pub fn records(&self) -> Vec<Record> {
        self.shared.lock().records.clone()
    }

    /// How many requests, of any fate, fulfil the predicate.
    pub fn count(&self, predicate: impl Fn(&Record) -> bool) -> usize {
        self.shared.lock().records.iter().filter(|record| predicate(record)).count()
    }

    /// How many of these requests took effect: they reached the server and it answered 2xx, whether or not the client
    /// ever heard of it.
    pub fn effects(&self, predicate: impl Fn(&Record) -> bool) -> usize {
        self.count(|record| record.took_effect() && predicate(record))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn update(&self, number: usize, change: impl FnOnce(&mut Record)) {
        change(&mut self.lock().records[number]);
    }
}

async fn handle(shared: Arc<Shared>, request: Request<Bytes>) -> Answer {
    let task = tokio::spawn(pass(shared, request));
    task.await.unwrap_or(Answer::Nothing)
}

async fn pass(shared: Arc<Shared>, request: Request<Bytes>) -> Answer {
    let (number, upstream, kind) = {
        let mut state = shared.lock();
        let number = state.records.len();
        let record = Record::of(&request);
        let (method, place) = (request.method(), record.place());
        state.records.push(record);
        // Every fault counts what it matches, also when another strikes.
        let struck: Vec<Kind> =
            state.faults.iter_mut().filter_map(|fault| fault.strikes(method, &place)).collect();
        (number, state.upstream.clone(), struck.into_iter().next())
    };
    let (answer, seen) = match kind {
        None => forward(&shared, number, &upstream, request).await.whole(),
        Some(Kind::DropBefore) => (Answer::Nothing, Seen::Nothing),
        Some(Kind::Unavailable) => (Answer::Whole(unavailable()), Seen::Whole(503)),
        Some(Kind::Delay(time)) => {
            tokio::time::sleep(time).await;
            forward(&shared, number, &upstream, request).await.whole()
        }
        Some(Kind::DropReply) => {
            forward(&shared, number, &upstream, request).await;
            (Answer::Nothing, Seen::Nothing)
        }
        Some(Kind::Truncate) => forward(&shared, number, &upstream, request).await.cut_off(),
        Some(Kind::HoldBefore(gate)) => match gate.pass().await {
            true => forward(&shared, number, &upstream, request).await.whole(),
            false => (Answer::Nothing, Seen::Nothing),
        },
        Some(Kind::HoldReply(gate)) => {
            let forwarded = forward(&shared, number, &upstream, request).await;
            match gate.pass().await {
                true => forwarded.whole(),
                false => (Answer::Nothing, Seen::Nothing),
            }
        }
    };
    shared.update(number, |record| record.end(seen));
    answer
}

/// The server's reply; none if it gave none that was whole.
struct Forwarded(Option<Response<Bytes>>);

impl Forwarded {
    fn whole(self) -> (Answer, Seen) {
        match self.0 {
            Some(reply) => {
                let seen = Seen::Whole(reply.status().as_u16());
                (Answer::Whole(reply), seen)
            }
            None => (Answer::Nothing, Seen::Nothing),
        }
    }

    fn cut_off(self) -> (Answer, Seen) {
        match self.0 {
            Some(reply) if !reply.body().is_empty() => {
                let seen = Seen::CutOff(reply.status().as_u16());
                (Answer::CutOff(reply), seen)
            }
            _ => (Answer::Nothing, Seen::Nothing),
        }
    }
}

async fn forward(shared: &Shared, number: usize, upstream: &Client, request: Request<Bytes>) -> Forwarded {
    shared.update(number, |record| record.forwarded = true);
    let (head, body) = request.into_parts();
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let reply = upstream.exchange(head.method, &path, end_to_end(head.headers), body).await;
    // A server that is down or broke off is what the client must see too; the record says what happened.
    let Ok(Reply { status, headers, body }) = reply else { return Forwarded(None) };
    shared.update(number, |record| record.answered(status, &body));
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = end_to_end(headers);
    Forwarded(Some(response))
}

/// Without what belongs to one connection (RFC 9110 section 7.6.1); lengths are set anew.
fn end_to_end(mut headers: HeaderMap) -> HeaderMap {
    let hop = [CONNECTION, TRANSFER_ENCODING, CONTENT_LENGTH, HeaderName::from_static("keep-alive")];
    for name in hop {
        headers.remove(name);
    }
    headers
}

fn unavailable() -> Response<Bytes> {
    let mut reply = Response::new(Bytes::from_static(b"{\"error\":\"unavailable\"}"));
    *reply.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    reply.headers_mut().insert(RETRY_AFTER, 1.into());
    reply
}
