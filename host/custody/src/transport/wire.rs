//! One request and its whole raw answer. Knows exactly whether a byte of the request could have left.

use super::connect::Connector;
use super::pool::{Pool, PoolKey, Sender};
use crate::registry::Bound;
use crate::secret::GrowBuffer;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Incoming};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::timeout;

/// How long a connection may take to finish with its last answer.
const READY: Duration = Duration::from_millis(100);

/// Ready to be written. Has no `Debug`: target, headers and body may hold secrets (attack 56).
pub(crate) struct Outgoing {
    pub method: Method,
    pub target: Bytes,
    pub headers: HeaderMap,
    pub body: Bytes,
}

/// A whole answer.
pub(crate) struct Raw {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: GrowBuffer,
    /// Why the body can't be used, although the status is known.
    pub unusable: Option<&'static str>,
}

/// No whole answer. Whether the request left is in the caller's flag.
pub(crate) struct Lost(pub String);

/// Whether a byte of the call's own request could have left.
#[derive(Default)]
pub(crate) struct Left {
    /// At any time.
    ever: AtomicBool,
    /// Of the attempt that is not settled by an answer.
    open: AtomicBool,
}

impl Left {
    pub fn ever(&self) -> bool {
        self.ever.load(Ordering::SeqCst)
    }

    pub fn open(&self) -> bool {
        self.open.load(Ordering::SeqCst)
    }

    /// The last attempt was answered for good: nothing of it is open.
    pub fn settle(&self) {
        self.open.store(false, Ordering::SeqCst);
    }

    /// From here on bytes may leave; returns what was true before.
    fn mark(&self) -> (bool, bool) {
        (self.ever.swap(true, Ordering::SeqCst), self.open.swap(true, Ordering::SeqCst))
    }

    fn unmark(&self, (ever, open): (bool, bool)) {
        self.ever.store(ever, Ordering::SeqCst);
        self.open.store(open, Ordering::SeqCst);
    }
}

pub(crate) struct Line<'l> {
    pub connector: &'l Connector,
    pub pool: &'l Pool,
    pub key: PoolKey,
    pub bound: &'l Bound,
    pub mutates: bool,
    pub max_reply: u64,
}

impl Line<'_> {
    /// Sends once. A read that met a connection which the peer had closed meanwhile is sent again on a new one; a
    /// mutation never is, unless the library hands the request back unwritten.
    pub async fn exchange(&self, outgoing: &Outgoing, left: &Left) -> Result<Raw, Lost> {
        let mut reused = self.ready().await;
        loop {
            let stale = reused.is_some();
            let mut sender = match reused.take() {
                Some(sender) => sender,
                None => self.connector.connect(self.bound).await.map_err(Lost)?,
            };
            let request = request(outgoing).ok_or_else(|| Lost("the request could not be built".into()))?;
            let before = left.mark();
            match sender.try_send_request(request).await {
                Ok(response) => return self.read(response, sender).await,
                Err(mut error) => {
                    let unwritten = error.take_message().is_some();
                    if unwritten {
                        left.unmark(before);
                    }
                    if stale && (unwritten || !self.mutates) {
                        continue;
                    }
                    return Err(Lost("the connection was lost before an answer came".into()));
                }
            }
        }
    }

    /// An idle connection that is ready to be written to.
    async fn ready(&self) -> Option<Sender> {
        while let Some(mut sender) = self.pool.take(&self.key, self.mutates) {
            if let Ok(Ok(())) = timeout(READY, sender.ready()).await {
                return Some(sender);
            }
        }
        None
    }

    async fn read(&self, response: Response<Incoming>, sender: Sender) -> Result<Raw, Lost> {
        let (parts, mut body) = response.into_parts();
        let status = parts.status.as_u16();
        let mut raw = Raw { status, headers: parts.headers, body: GrowBuffer::default(), unusable: None };
        if (100..200).contains(&status) {
            raw.unusable = Some("an interim answer or a change of protocol");
            return Ok(raw);
        }
        let encoded = raw.headers.get_all(http::header::CONTENT_ENCODING).iter();
        if encoded.into_iter().any(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity")) {
            raw.unusable = Some("compressed although that was not asked for (attack 9)");
            return Ok(raw);
        }
        let announced = body.size_hint().exact();
        if announced.is_some_and(|length| length > self.max_reply) {
            raw.unusable = Some("longer than `max-reply` (attack 11)");
            return Ok(raw);
        }
        raw.body = GrowBuffer::with_capacity(announced.unwrap_or(4096) as usize);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|_| Lost("the answer broke off".into()))?;
            // Trailers are dropped (attack 7).
            let Ok(data) = frame.into_data() else { continue };
            if (raw.body.as_slice().len() + data.len()) as u64 > self.max_reply {
                raw.body = GrowBuffer::default();
                raw.unusable = Some("longer than `max-reply` (attack 11)");
                return Ok(raw);
            }
            raw.body.push(&data);
        }
        self.pool.give(self.key.clone(), sender);
        Ok(raw)
    }
}

fn request(outgoing: &Outgoing) -> Option<Request<Full<Bytes>>> {
    let uri = http::Uri::from_maybe_shared(outgoing.target.clone()).ok()?;
    let mut request = Request::new(Full::new(outgoing.body.clone()));
    *request.method_mut() = outgoing.method.clone();
    *request.uri_mut() = uri;
    *request.headers_mut() = outgoing.headers.clone();
    Some(request)
}
