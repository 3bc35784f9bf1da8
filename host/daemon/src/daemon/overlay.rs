//! `[[secret]]` of the configuration: comes before stored secrets, is never stored.

use crate::config::{Config, Overlay, read_overlays};
use holdfast_controllers::rooms::{CredentialOverlay, OverlaySecret};
use std::sync::{PoisonError, RwLock};

pub struct Overlays {
    entries: RwLock<Vec<Entry>>,
}

struct Entry {
    provider: String,
    site: Option<String>,
    secret: OverlaySecret,
}

impl Overlays {
    pub fn new(config: &Config) -> anyhow::Result<Overlays> {
        let entries = read_overlays(config)?.into_iter().map(|overlay| entry(overlay, &[])).collect();
        Ok(Overlays { entries: RwLock::new(entries) })
    }

    /// Reads the sources again. An entry whose bytes did not change keeps its version.
    pub fn reload(&self, config: &Config) -> anyhow::Result<()> {
        let read = read_overlays(config)?;
        let mut entries = self.entries.write().unwrap_or_else(PoisonError::into_inner);
        let fresh = read.into_iter().map(|overlay| entry(overlay, &entries)).collect();
        *entries = fresh;
        Ok(())
    }

    fn find(&self, fits: impl Fn(&Entry) -> bool) -> Option<OverlaySecret> {
        let entries = self.entries.read().unwrap_or_else(PoisonError::into_inner);
        entries.iter().find(|entry| fits(entry)).map(|entry| entry.secret.clone())
    }
}

fn entry(overlay: Overlay, old: &[Entry]) -> Entry {
    let Overlay { provider, site, name, values } = overlay;
    let name = name.unwrap_or_else(|| format!("configuration/{}", site.as_deref().unwrap_or_default()));
    let before = old.iter().find(|it| it.provider == provider && it.site == site && it.secret.name == name);
    let version = match before {
        Some(it) if it.secret.values == values => it.secret.version.clone(),
        Some(it) => it.secret.version.parse::<u64>().map_or(1, |version| version + 1).to_string(),
        None => "1".to_owned(),
    };
    Entry { provider, site, secret: OverlaySecret { name, version, values } }
}

impl CredentialOverlay for Overlays {
    fn by_name(&self, provider: &str, name: &str) -> Option<OverlaySecret> {
        self.find(|it| it.provider == provider && it.site.is_none() && it.secret.name == name)
    }

    fn by_site(&self, provider: &str, site: &str) -> Option<OverlaySecret> {
        self.find(|it| it.provider == provider && it.site.as_deref() == Some(site))
    }
}
