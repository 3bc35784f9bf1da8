//! Structured logs: text for people, JSON by option.
//!
//! Libraries are capped at `warn` in code, whatever the filter asks for: HTTP and TLS crates print header bytes at
//! `trace` (attack 57).

use crate::config::LogFormat;
use anyhow::Context;
use std::io;
use std::sync::{Arc, Mutex};
use tracing::{Level, Metadata};
use tracing_subscriber::filter::{EnvFilter, filter_fn};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

/// Installs the process's subscriber. `copy` receives every line as well, for the demo's evidence.
pub fn install(filter: &str, format: LogFormat, copy: Option<Copy>) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter).context("observe.log is no tracing filter")?;
    let ours = filter_fn(may_speak);
    let writer = Tee { copy, quiet: false };
    install_with(filter, ours, format, writer)
}

/// Lines go to the copy alone: the demo prints a story, not a log.
pub fn install_quiet(filter: &str, copy: Copy) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(filter).context("the log filter is no tracing filter")?;
    install_with(filter, filter_fn(may_speak), LogFormat::Text, Tee { copy: Some(copy), quiet: true })
}

fn install_with<F>(filter: EnvFilter, ours: F, format: LogFormat, writer: Tee) -> anyhow::Result<()>
where
    F: tracing_subscriber::layer::Filter<
            tracing_subscriber::layer::Layered<EnvFilter, tracing_subscriber::Registry>,
        > + Send
        + Sync
        + 'static,
{
    let registry = tracing_subscriber::registry().with(filter);
    let layer = tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(false);
    match format {
        LogFormat::Text => registry.with(layer.with_filter(ours)).try_init(),
        LogFormat::Json => registry.with(layer.json().with_filter(ours)).try_init(),
    }
    .context("the log was already set up")
}

/// The cap. Our own crates may say what the filter allows; nobody else says more than warnings.
fn may_speak(meta: &Metadata<'_>) -> bool {
    meta.target().starts_with("holdfast") || *meta.level() <= Level::WARN
}

/// A copy of everything that was logged.
#[derive(Clone, Default)]
pub struct Copy(Arc<Mutex<Vec<u8>>>);

impl Copy {
    pub fn contents(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }
}

#[derive(Clone)]
struct Tee {
    copy: Option<Copy>,
    quiet: bool,
}

impl io::Write for Tee {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        if let Some(copy) = &self.copy {
            copy.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).extend_from_slice(buffer);
        }
        if self.quiet { Ok(buffer.len()) } else { io::stderr().write_all(buffer).map(|()| buffer.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

impl MakeWriter<'_> for Tee {
    type Writer = Tee;

    fn make_writer(&self) -> Tee {
        self.clone()
    }
}
