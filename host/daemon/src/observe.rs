//! `/metrics`, `/healthz` and `/readyz` on loopback.

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use prometheus_client::registry::Registry;
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::net::TcpListener;

/// What the endpoints show.
pub struct Observed {
    pub registry: Registry,
    /// True between the end of the start and the beginning of the drain.
    pub ready: Arc<AtomicBool>,
    /// Whether the store failed: nothing can be written before a restart.
    pub store_failed: Box<dyn Fn() -> bool + Send + Sync>,
}

/// Serves until the task is dropped.
pub async fn serve(listener: TcpListener, observed: Arc<Observed>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            continue;
        };
        let observed = observed.clone();
        tokio::spawn(async move {
            let service = hyper::service::service_fn(move |request| {
                let observed = observed.clone();
                async move { Ok::<_, Infallible>(answer(&request, &observed)) }
            });
            // A client that goes away in the middle of a scrape is no event of ours.
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

fn answer<B>(request: &Request<B>, observed: &Observed) -> Response<Full<Bytes>> {
    if request.method() != Method::GET {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "only GET is served here\n".into());
    }
    match request.uri().path() {
        "/healthz" | "/readyz" if (observed.store_failed)() => {
            plain(StatusCode::INTERNAL_SERVER_ERROR, "the store failed; restart the daemon\n".into())
        }
        "/healthz" => plain(StatusCode::OK, "ok\n".into()),
        "/readyz" if observed.ready.load(Ordering::Acquire) => plain(StatusCode::OK, "ready\n".into()),
        "/readyz" => plain(StatusCode::SERVICE_UNAVAILABLE, "starting or draining\n".into()),
        "/metrics" => metrics(&observed.registry),
        _ => plain(StatusCode::NOT_FOUND, "/metrics, /healthz and /readyz are served here\n".into()),
    }
}

fn metrics(registry: &Registry) -> Response<Full<Bytes>> {
    let mut text = String::new();
    if prometheus_client::encoding::text::encode(&mut text, registry).is_err() {
        return plain(StatusCode::INTERNAL_SERVER_ERROR, "the metrics could not be encoded\n".into());
    }
    let mut response = plain(StatusCode::OK, text);
    response.headers_mut().insert(
        http::header::CONTENT_TYPE,
        http::HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8"),
    );
    response
}

fn plain(status: StatusCode, text: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_store_is_neither_healthy_nor_ready() {
        let failed = Arc::new(AtomicBool::new(false));
        let seen = failed.clone();
        let observed = Observed {
            registry: Registry::default(),
            ready: Arc::new(AtomicBool::new(true)),
            store_failed: Box::new(move || seen.load(Ordering::Acquire)),
        };
        let status = |path: &str| answer(&Request::get(path).body(()).unwrap(), &observed).status();
        assert_eq!((status("/healthz"), status("/readyz")), (StatusCode::OK, StatusCode::OK));
        failed.store(true, Ordering::Release);
        for path in ["/healthz", "/readyz"] {
            assert_eq!(status(path), StatusCode::INTERNAL_SERVER_ERROR, "{path}");
        }
        assert_eq!(status("/metrics"), StatusCode::OK, "the metrics say why");
    }
}
