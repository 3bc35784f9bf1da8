//! `[[secret]]` of the configuration: comes before stored secrets, is never stored.

use crate::config::{Config, Overlay, read_overlays};
use holdfast_controllers::rooms::{CredentialOverlay, OverlaySecret};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

/// Versions of this process: none is given twice, so that an entry that went and came back with other bytes is never
/// taken for what it was.
static NEXT_VERSION: AtomicU64 = AtomicU64::new(1);

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
        _ => NEXT_VERSION.fetch_add(1, Ordering::Relaxed).to_string(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn an_entry_that_went_and_came_back_never_has_a_version_it_had_before() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        let write = |text: &str| {
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        };
        let config = |secret: &str| {
            let text = format!("state-dir = 's'\nproviders-dir = 'p'\n{secret}");
            crate::config::parse(&text, &folder.path().join("holdfast.toml")).unwrap()
        };
        let with = config("[[secret]]\nprovider='p'\nsite='s'\nvalues={ t = { file = 'token' } }\n");
        let without = config("");
        write("one");
        let overlays = Overlays::new(&with).unwrap();
        let version = |overlays: &Overlays| overlays.by_site("p", "s").unwrap().version;
        let mut seen = vec![version(&overlays)];
        overlays.reload(&with).unwrap();
        assert_eq!(version(&overlays), seen[0], "the bytes did not change");
        for text in ["two", "three"] {
            overlays.reload(&without).unwrap();
            assert!(overlays.by_site("p", "s").is_none());
            write(text);
            overlays.reload(&with).unwrap();
            assert!(!seen.contains(&version(&overlays)), "{seen:?}");
            seen.push(version(&overlays));
        }
    }
}
