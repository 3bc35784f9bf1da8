//! Lists: narrowed by selectors, whole or in pages. All pages of a list are of one moment.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::Api;
use crate::index::{ObjectKey, Stored};
use crate::metadata::random;
use crate::registry::{Kind, KindId};
use crate::selector::Selector;
use crate::status::ApiError;

/// Lists that are remembered between pages.
const MAX_PAGES: usize = 64;
/// How long a list is remembered; what was deleted meanwhile must not stay in memory for ever.
const PAGE_LIFE: Duration = Duration::from_secs(300);

/// Options of a list.
#[derive(Debug, Default)]
pub(crate) struct ListOptions {
    pub(crate) selector: Selector,
    pub(crate) limit: usize,
    pub(crate) continue_: String,
    pub(crate) version: String,
    /// Whether exactly that version is asked for.
    pub(crate) exact: bool,
}

/// A list, or a page of one.
pub(crate) struct List {
    pub(crate) objects: Vec<Arc<Stored>>,
    pub(crate) version: u64,
    pub(crate) continue_: Option<String>,
    pub(crate) remaining: usize,
}

/// The rest of lists that were given in part. The newest stay; who comes too late lists anew (410).
#[derive(Default)]
pub(crate) struct Pages {
    inner: Mutex<VecDeque<Page>>,
}

struct Page {
    token: String,
    kind: KindId,
    namespace: Option<String>,
    rest: Vec<Arc<Stored>>,
    version: u64,
    kept_at: Instant,
}

impl Api {
    /// Lists the objects of a kind.
    pub(crate) fn list(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        options: &ListOptions,
    ) -> Result<List, ApiError> {
        let (objects, version) = if options.continue_.is_empty() {
            self.check_version(options)?;
            self.select(kind, namespace, &options.selector)
        } else {
            self.pages.take(&options.continue_, kind.id, namespace)?
        };
        let mut list = List { objects, version, continue_: None, remaining: 0 };
        if options.limit > 0 && list.objects.len() > options.limit {
            let rest = list.objects.split_off(options.limit);
            list.remaining = rest.len();
            list.continue_ = Some(self.pages.keep(kind.id, namespace, rest, version));
        }
        Ok(list)
    }

    pub(super) fn select(
        &self,
        kind: &Kind,
        namespace: Option<&str>,
        selector: &Selector,
    ) -> (Vec<Arc<Stored>>, u64) {
        if let (Some(name), true) = (selector.name(), namespace.is_some() || !kind.namespaced) {
            // One object by its name: no need to walk over the others.
            let version = self.index.version();
            let key =
                ObjectKey { namespace: namespace.unwrap_or_default().to_owned(), name: name.to_owned() };
            let object = self.index.get(kind.storage, &key).filter(|o| selector.matches(o));
            return (object.into_iter().collect(), version);
        }
        let (mut objects, version) = self.index.list(kind.storage, namespace);
        if !selector.is_empty() {
            objects.retain(|object| selector.matches(object));
        }
        (objects, version)
    }

    fn check_version(&self, options: &ListOptions) -> Result<(), ApiError> {
        if options.version.is_empty() {
            return Ok(());
        }
        let asked = parse_version(&options.version)?;
        let current = self.index.version();
        if asked > current {
            return Err(ApiError::version_too_large(asked, current));
        }
        if options.exact && asked != current {
            return Err(ApiError::expired("The provided resource version is not available"));
        }
        Ok(())
    }
}

/// Reads a `resourceVersion` parameter.
pub(crate) fn parse_version(text: &str) -> Result<u64, ApiError> {
    text.parse()
        .map_err(|_| ApiError::bad_request(format!("resourceVersion: Invalid value: {text:?}: not a number")))
}

impl Pages {
    fn take(
        &self,
        token: &str,
        kind: KindId,
        namespace: Option<&str>,
    ) -> Result<(Vec<Arc<Stored>>, u64), ApiError> {
        let mut pages = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        pages.retain(|page| page.kept_at.elapsed() < PAGE_LIFE);
        let page = pages.iter().find(|p| p.token == token);
        match page {
            Some(page) if page.kind == kind && page.namespace.as_deref() == namespace => {
                Ok((page.rest.clone(), page.version))
            }
            Some(_) => Err(ApiError::bad_request("continue key is not valid for this list")),
            None => Err(ApiError::expired(
                "The provided continue parameter is too old to display a consistent list result; start the list anew",
            )),
        }
    }

    fn keep(&self, kind: KindId, namespace: Option<&str>, rest: Vec<Arc<Stored>>, version: u64) -> String {
        let token = data_encoding::BASE64URL_NOPAD.encode(&random::<18>());
        let namespace = namespace.map(str::to_owned);
        let mut pages = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        pages.push_back(Page {
            token: token.clone(),
            kind,
            namespace,
            rest,
            version,
            kept_at: Instant::now(),
        });
        while pages.len() > MAX_PAGES {
            pages.pop_front();
        }
        token
    }
}
