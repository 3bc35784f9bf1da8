//! The tower service: `kube::Client::new(service, "default")` works on it, and hyper serves it on a socket.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Method, Request, Response, header};
use hyper::body::Body;
use serde_json::json;

use super::answer::{self, ResponseBody};
use super::body;
use super::dispatch::{self, Parts};
use super::request::{Query, Route, route};
use crate::api::Api;
use crate::auth::Tokens;
use crate::discovery;
use crate::openapi::Documents;
use crate::status::ApiError;

/// The API as a service. Cheap to clone.
#[derive(Clone)]
pub struct ApiService {
    api: Arc<Api>,
    /// Whom to ask about tokens; `None` trusts the caller, which is in this process.
    tokens: Option<Arc<Tokens>>,
}

impl ApiService {
    pub(crate) fn new(api: Arc<Api>, tokens: Option<Arc<Tokens>>) -> Self {
        Self { api, tokens }
    }

    async fn answer<B>(&self, request: Request<B>) -> Response<ResponseBody>
    where
        B: Body<Data = Bytes> + Send,
    {
        self.handle(request).await.unwrap_or_else(|error| answer::error(&error))
    }

    async fn handle<B>(&self, request: Request<B>) -> Result<Response<ResponseBody>, ApiError>
    where
        B: Body<Data = Bytes> + Send,
    {
        let (parts, body) = request.into_parts();
        let registry = self.api.registry.clone();
        let route = route(&registry, parts.uri.path());
        let open = matches!(route, Some(Route::Health | Route::Version));
        if !open && let Some(tokens) = &self.tokens {
            let header = parts.headers.get(header::AUTHORIZATION).and_then(|v| v.to_str().ok());
            if !tokens.admits(header.unwrap_or_default()) {
                return Err(ApiError::unauthorized());
            }
        }
        let route = route.ok_or_else(ApiError::no_such_path)?;
        let target = match route {
            Route::Objects(target) => target,
            other => return self.describe(&other, &parts.method, parts.uri.query().unwrap_or_default()),
        };
        let body = match parts.method {
            Method::GET | Method::HEAD => Bytes::new(),
            _ => body::read(body).await?,
        };
        let query = Query::parse(parts.uri.query().unwrap_or_default());
        dispatch::objects(
            &self.api,
            target,
            Parts { method: &parts.method, headers: &parts.headers, query, body },
        )
        .await
    }

    fn documents(&self) -> &Documents {
        self.api.documents.get_or_init(|| Documents::new(&self.api.registry))
    }

    /// What the server says of itself.
    fn describe(
        &self,
        route: &Route<'_>,
        method: &Method,
        query: &str,
    ) -> Result<Response<ResponseBody>, ApiError> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return Err(ApiError::method_not_allowed());
        }
        let registry = &self.api.registry;
        let body = match route {
            Route::Health if self.api.writer.counters.failed.load(Ordering::Acquire) => {
                return Ok(answer::text(500, "the store failed; restart the daemon"));
            }
            Route::Health => return Ok(answer::text(200, "ok")),
            Route::Root => json!({ "paths": discovery::paths(registry) }),
            Route::Version => discovery::version(),
            Route::CoreVersions => discovery::core_versions(),
            Route::Groups => discovery::groups(registry),
            Route::Group(group) => discovery::group(registry, group),
            Route::Resources(group, version) => discovery::resources(registry, group, version),
            Route::OpenApiIndex => return Ok(answer::json(200, self.documents().index())),
            Route::OpenApi(group, version) => {
                let document =
                    self.documents().document(group, version).ok_or_else(ApiError::no_such_path)?;
                let mut response = answer::json(200, document);
                if query.contains("hash=") {
                    let value = header::HeaderValue::from_static("private, max-age=3600");
                    response.headers_mut().insert(header::CACHE_CONTROL, value);
                }
                return Ok(response);
            }
            Route::Objects(_) => return Err(ApiError::no_such_path()),
        };
        Ok(answer::value(200, &body))
    }
}

impl<B> tower::Service<Request<B>> for ApiService
where
    B: Body<Data = Bytes> + Send + 'static,
{
    type Response = Response<ResponseBody>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move { Ok(service.answer(request).await) })
    }
}
