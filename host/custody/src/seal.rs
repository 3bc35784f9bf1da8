//! Sealed values: what a guest may carry but neither read nor make (next and monitor URLs, action targets, ETags).
//!
//! ChaCha20-Poly1305 with a synthetic nonce: the nonce is an HMAC of scope and plaintext, so that the same value in the
//! same scope is always the same text and a recorded reply stays stable. What that gives away is equality within one
//! operation's field, which the service's own value gives away too. The scope (provider, owner, binding, call.field) is
//! authenticated, so that a value of another operation, binding or field does not open.

use crate::keys::{Keys, tag};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use holdfast_manifest::glob_matches;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::hmac;
use url::Url;

const PREFIX: &str = "hs1.";
/// Longest opaque text that is looked at.
const LONGEST: usize = 16 * 1024;

/// What a sealed value is bound to.
pub(crate) struct SealScope<'s> {
    pub provider: &'s str,
    pub owner: &'s str,
    pub binding: &'s str,
    /// `call.field`.
    pub field: &'s str,
}

/// A value that was opened: its text, and the path of the request in whose reply it stood.
pub(crate) struct Opened {
    pub text: String,
    pub base: String,
}

pub(crate) struct Sealer {
    key: LessSafeKey,
    nonce: hmac::Key,
    /// False in a harness only: then nothing is bound to a scope.
    bind: bool,
}

impl Sealer {
    pub fn new(keys: &Keys, bind: bool) -> Option<Sealer> {
        let key = UnboundKey::new(&CHACHA20_POLY1305, &keys.raw("custody/seal")[..]).ok()?;
        Some(Sealer { key: LessSafeKey::new(key), nonce: keys.hmac("custody/seal-nonce"), bind })
    }

    /// Seals a text that stood in the reply to a request for `base`.
    pub fn seal(&self, scope: &SealScope<'_>, base: &str, text: &str) -> Option<String> {
        let aad = self.aad(scope);
        let mut plain = Vec::with_capacity(2 + base.len() + text.len() + CHACHA20_POLY1305.tag_len());
        plain.extend_from_slice(&u16::try_from(base.len()).ok()?.to_be_bytes());
        plain.extend_from_slice(base.as_bytes());
        plain.extend_from_slice(text.as_bytes());
        let mut nonce = [0; NONCE_LEN];
        nonce.copy_from_slice(&tag(&self.nonce, &[&aad, &plain])[..NONCE_LEN]);
        let sealing = Nonce::assume_unique_for_key(nonce);
        self.key.seal_in_place_append_tag(sealing, Aad::from(&aad), &mut plain).ok()?;
        let mut out = nonce.to_vec();
        out.extend_from_slice(&plain);
        Some(format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(out)))
    }

    /// Opens a text; `None` for whatever was not sealed by this host for exactly this scope.
    pub fn open(&self, scope: &SealScope<'_>, opaque: &str) -> Option<Opened> {
        if opaque.len() > LONGEST {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(opaque.strip_prefix(PREFIX)?).ok()?;
        let (nonce, sealed) = bytes.split_first_chunk::<NONCE_LEN>()?;
        let mut buffer = zeroize::Zeroizing::new(sealed.to_vec());
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let plain = self.key.open_in_place(nonce, Aad::from(&self.aad(scope)), &mut buffer).ok()?;
        let (length, rest) = plain.split_first_chunk::<2>()?;
        let (base, text) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        let owned = |bytes: &[u8]| std::str::from_utf8(bytes).ok().map(str::to_owned);
        Some(Opened { text: owned(text)?, base: owned(base)? })
    }

    fn aad(&self, scope: &SealScope<'_>) -> Vec<u8> {
        let parts: [&str; 4] =
            if self.bind { [scope.provider, scope.owner, scope.binding, scope.field] } else { [""; 4] };
        let mut aad = Vec::new();
        for part in parts {
            aad.extend_from_slice(&(part.len() as u64).to_be_bytes());
            aad.extend_from_slice(part.as_bytes());
        }
        aad
    }
}

/// Resolves a URL of a reply against the request's own and checks it (section 5, attacks 27, 31, 32): the binding's
/// origin or an alias, no userinfo or fragment, a normalised path under `within`.
pub(crate) fn resolve(
    origin: &Url,
    base: &str,
    text: &str,
    aliases: &[Url],
    within: Option<&str>,
) -> Option<Url> {
    // The parser would drop or turn these silently; what is checked must be what was written.
    if text.is_empty() || text.contains(|c: char| c.is_control() || c.is_whitespace() || c == '\\') {
        return None;
    }
    let url = origin.join(base).ok()?.join(text).ok()?;
    let known = url.origin() == origin.origin() || aliases.iter().any(|alias| alias.origin() == url.origin());
    if !known || url.scheme() != "https" || !url.username().is_empty() || url.password().is_some() {
        return None;
    }
    if url.fragment().is_some() {
        return None;
    }
    let path = url.path().to_ascii_lowercase();
    if path.contains("//") || path.contains("%2f") || path.contains("%5c") || path.contains("%2e") {
        return None;
    }
    within.is_none_or(|glob| glob_matches(glob, url.path())).then_some(url)
}

#[cfg(test)]
pub(crate) fn test_sealer(bind: bool) -> Sealer {
    Sealer::new(&Keys::new(&zeroize::Zeroizing::new([3; 32])), bind).unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scope<'s>(owner: &'s str, field: &'s str) -> SealScope<'s> {
        SealScope { provider: "p", owner, binding: "api/site", field }
    }

    #[test]
    fn a_sealed_value_opens_in_its_own_scope_only_and_is_stable() {
        let sealer = test_sealer(true);
        let sealed = sealer.seal(&scope("op-1", "put.monitor"), "/a", "/x?sig=1").unwrap();
        assert_eq!(sealed, sealer.seal(&scope("op-1", "put.monitor"), "/a", "/x?sig=1").unwrap());
        assert!(!sealed.contains("sig"));
        assert_eq!(sealer.open(&scope("op-1", "put.monitor"), &sealed).unwrap().text, "/x?sig=1");
        assert!(sealer.open(&scope("op-2", "put.monitor"), &sealed).is_none());
        assert!(sealer.open(&scope("op-1", "put.other"), &sealed).is_none());
        let mut forged = sealed.into_bytes();
        let last = forged.len() - 2;
        forged[last] = if forged[last] == b'A' { b'B' } else { b'A' };
        assert!(sealer.open(&scope("op-1", "put.monitor"), std::str::from_utf8(&forged).unwrap()).is_none());
        assert!(sealer.open(&scope("op-1", "put.monitor"), "/x").is_none());
    }

    #[test]
    fn without_the_defence_a_foreign_value_opens_so_the_test_above_can_fail() {
        let sealer = test_sealer(false);
        let sealed = sealer.seal(&scope("op-1", "put.monitor"), "/a", "/x").unwrap();
        assert!(sealer.open(&scope("op-2", "put.other"), &sealed).is_some());
    }

    #[test]
    fn urls_of_replies_stay_on_the_origin_and_under_the_glob_attacks_27_31_32() {
        let origin = Url::parse("https://bmc.example").unwrap();
        let alias = [Url::parse("https://region.example:8443").unwrap()];
        let check =
            |text: &str| resolve(&origin, "/redfish/v1/Systems/1", text, &alias, Some("/redfish/v1/**"));
        for good in [
            "/redfish/v1/Tasks/1",
            "Actions/Reset",
            "https://bmc.example/redfish/v1/x?sig=a%2Fb",
            "https://region.example:8443/redfish/v1/x",
        ] {
            assert!(check(good).is_some(), "{good}");
        }
        for evil in [
            "https://evil.example/redfish/v1/x",
            "//evil.example/redfish/v1/x",
            "http://bmc.example/redfish/v1/x",
            "https://bmc.example@evil.example/redfish/v1/x",
            "https://u:p@bmc.example/redfish/v1/x",
            "https://bmc.example:8443/redfish/v1/x",
            "/redfish/v1/../../admin",
            "/redfish/v1/%2e%2e/%2e%2e/admin",
            "/redfish/v1/x#f",
            "\\\\evil.example/redfish/v1/x",
            "/redfish/v1/a\tb",
            "/admin",
            "",
            "/redfish/v1/%2fadmin",
            "https://bmc.example./redfish/v1/x",
        ] {
            assert!(check(evil).is_none(), "{evil}");
        }
    }
}
