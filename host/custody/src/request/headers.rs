//! Header values and names: one check for whatever goes there (attacks 33, 34, 41).

use crate::secret::SecretBytes;
use http::{HeaderName, HeaderValue};

/// Names that only the host sets, or nobody: framing, routing, connection, ranges, method overrides, tracing.
const HOST_ONLY: &[&str] = &[
    "host",
    "content-length",
    "content-type",
    "content-encoding",
    "transfer-encoding",
    "accept-encoding",
    "te",
    "trailer",
    "upgrade",
    "connection",
    "keep-alive",
    "expect",
    "range",
    "if-range",
    "user-agent",
    "forwarded",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
];

/// Names that only authentication may fill (attack 38).
const AUTH_ONLY: &[&str] = &["authorization", "cookie", "proxy-authorization"];

/// A name that a declared constant or argument may have.
pub(crate) fn declared_name(name: &str) -> Option<HeaderName> {
    let parsed = auth_name(name)?;
    (!AUTH_ONLY.contains(&parsed.as_str())).then_some(parsed)
}

/// A name that authentication and credential slots may fill.
pub(crate) fn auth_name(name: &str) -> Option<HeaderName> {
    let parsed = HeaderName::from_bytes(name.as_bytes()).ok()?;
    let lower = parsed.as_str();
    (!HOST_ONLY.contains(&lower) && !lower.starts_with("proxy-") && !lower.starts_with("sec-"))
        .then_some(parsed)
}

/// A value of visible ASCII and inner spaces; anything else could end the header.
pub(crate) fn value(text: &str) -> Option<HeaderValue> {
    if !fits(text.as_bytes()) {
        return None;
    }
    HeaderValue::from_str(text).ok()
}

/// The same for a secret, without copying it: the header holds our buffer, which is wiped by its last holder.
pub(crate) fn secret_value(secret: SecretBytes) -> Option<HeaderValue> {
    if !fits(secret.expose()) {
        return None;
    }
    let mut value = HeaderValue::from_maybe_shared(secret.into_bytes()).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// May these bytes stand in a header?
pub(crate) fn fits(bytes: &[u8]) -> bool {
    bytes.iter().all(|b| (0x20..0x7f).contains(b))
        && bytes.first() != Some(&b' ')
        && bytes.last() != Some(&b' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_and_foreign_bytes_never_stand_in_a_header_attack_33() {
        for evil in ["a\r\nX: y", "a\nb", "a\0b", "ä", " a", "a ", "a\tb", "a\u{7f}"] {
            assert!(value(evil).is_none(), "{evil:?}");
            assert!(secret_value(SecretBytes::from(evil.as_bytes().to_vec())).is_none(), "{evil:?}");
        }
        let secret = secret_value(SecretBytes::from(b"Bearer abc".to_vec())).unwrap();
        assert!(secret.is_sensitive());
        assert!(!format!("{secret:?}").contains("abc"));
    }

    #[test]
    fn framing_names_are_the_hosts_and_auth_names_are_authentications_attacks_30_34_38() {
        for name in [
            "Host",
            "Content-Length",
            "transfer-encoding",
            "TE",
            "Range",
            "Proxy-X",
            "Sec-WebSocket-Key",
            "b ad",
        ] {
            assert!(auth_name(name).is_none(), "{name}");
        }
        assert!(declared_name("Authorization").is_none());
        assert!(auth_name("Authorization").is_some());
        assert!(declared_name("If-Match").is_some());
    }
}
