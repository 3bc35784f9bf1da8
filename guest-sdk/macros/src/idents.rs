//! Names of the manifest as names of Rust.

use proc_macro2::{Ident, Span};

/// `boot-source` as `boot_source`; keywords become raw.
pub(crate) fn snake(name: &str, span: Span) -> Ident {
    let text = name.replace('-', "_");
    match syn::parse_str::<Ident>(&text) {
        Ok(_) => Ident::new(&text, span),
        Err(_) if matches!(text.as_str(), "self" | "super" | "crate") => {
            Ident::new(&format!("{text}_"), span)
        }
        Err(_) => Ident::new_raw(&text, span),
    }
}

/// `boot-once` as `BootOnce`; words of a service keep their capitals: `ForceOff`, `UefiHttp`.
pub(crate) fn camel_text(name: &str) -> String {
    let mut out = String::new();
    for part in name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|part| !part.is_empty()) {
        let mut chars = part.chars();
        out.extend(chars.next().map(|c| c.to_ascii_uppercase()));
        out.push_str(chars.as_str());
    }
    out
}

/// The same as a name that stands alone: `2` as `V2`.
pub(crate) fn type_text(name: &str) -> String {
    let mut out = camel_text(name);
    if out.is_empty() || out.starts_with(|c: char| c.is_ascii_digit()) || out == "Self" {
        out.insert(0, 'V');
    }
    out
}
