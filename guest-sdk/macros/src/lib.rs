//! `provider!`: a provider's manifest, read when its crate is compiled.
//!
//! The macro checks the manifest with the host's own loader, generates a typed client of its calls, and embeds it with
//! the exports into the module. Use it through `holdfast-guest-sdk`, which documents it.

mod client;
mod idents;
mod world;

use holdfast_manifest::{CAPACITY, MAX_SECTION, Manifest, OPERATIONS};
use proc_macro2::{Span, TokenStream};
use quote::quote;
use std::path::PathBuf;
use syn::parse::{Parse, ParseStream};
use syn::{Ident, LitStr, Path, Token};

/// `provider!("provider.toml", MyProvider)` makes the crate a provider.
///
/// The path is relative to the crate's folder. The type implements `Operations`; with a third word, `capacity`, it
/// implements `Capacity` too, and the module exports both. The macro stands at the root of the crate, once, and brings:
///
/// * the module `calls` with one function per declared call: of mutations first the key, then the credentials where the
///   endpoint authenticates, the handle of each first-boot slot, the mandatory arguments and the optional ones, both by
///   name. It returns a struct of the declared fields and the `status`. A call that is never used is a warning;
/// * `calls::ProviderId`, where the manifest has a `provider-id`, and a function `calls::target_KIND` per entry of
///   `targets`;
/// * on wasm, the exports and the manifest in the custom section `holdfast:manifest`.
///
/// A manifest that breaks a rule is a compile error with the manifest's line.
#[proc_macro]
pub fn provider(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let input = syn::parse_macro_input!(input as Input);
    expand(&input).unwrap_or_else(|error| error.into_compile_error()).into()
}

struct Input {
    file: LitStr,
    provider: Path,
    capacity: bool,
}

impl Parse for Input {
    fn parse(input: ParseStream<'_>) -> syn::Result<Input> {
        let file = input.parse()?;
        input.parse::<Token![,]>()?;
        let provider = input.parse()?;
        let mut capacity = false;
        if input.parse::<Option<Token![,]>>()?.is_some() && !input.is_empty() {
            let word: Ident = input.parse()?;
            if word != "capacity" {
                return Err(syn::Error::new(word.span(), "the third word is `capacity`, or nothing"));
            }
            capacity = true;
            input.parse::<Option<Token![,]>>()?;
        }
        Ok(Input { file, provider, capacity })
    }
}

fn expand(input: &Input) -> syn::Result<TokenStream> {
    let fail = |message: String| syn::Error::new(input.file.span(), message);
    let root = std::env::var("CARGO_MANIFEST_DIR").map_err(|_| fail("`provider!` needs cargo".to_owned()))?;
    let path = PathBuf::from(root).join(input.file.value());
    let text = std::fs::read_to_string(&path).map_err(|e| fail(format!("{}: {e}", path.display())))?;
    let manifest =
        Manifest::parse(&text).map_err(|errors| fail(format!("the manifest is refused:\n{errors}")))?;
    let exports: &[&str] = if input.capacity { &[OPERATIONS, CAPACITY] } else { &[OPERATIONS] };
    manifest.check_exports(exports).map_err(|errors| fail(format!("the manifest is refused:\n{errors}")))?;
    debug_assert!(text.len() <= MAX_SECTION);

    let calls = client::module(&manifest, input.file.span());
    let exports = exports_of(input, &text, fail)?;
    let file = &input.file;
    Ok(quote! {
        // Rebuilds the crate when the manifest changes.
        const _: &[u8] = ::core::include_bytes!(::core::concat!(::core::env!("CARGO_MANIFEST_DIR"), "/", #file));
        #calls
        #exports
    })
}

fn exports_of(input: &Input, text: &str, fail: impl Fn(String) -> syn::Error) -> syn::Result<TokenStream> {
    let Input { file, provider, capacity } = input;
    let world = if *capacity { "capacity-provider" } else { "operations-provider" };
    let component =
        world::component_type(world).map_err(|e| fail(format!("the contract cannot be encoded: {e:#}")))?;
    let component_len = component.len();
    let component = syn::LitByteStr::new(&component, Span::call_site());
    let section = format!("component-type:holdfast-guest-sdk:{world}");
    let manifest_section = holdfast_manifest::SECTION;
    let manifest_len = text.len();
    let bindings = quote!(::holdfast_guest_sdk::bindings::exports::holdfast::provider);
    let also = capacity.then(|| {
        quote! {
            #bindings::capacity::__export_holdfast_provider_capacity_0_1_0_cabi!(
                Export with_types_in #bindings::capacity
            );
        }
    });
    let bound = if *capacity {
        quote!(::holdfast_guest_sdk::operations::Operations + ::holdfast_guest_sdk::capacity::Capacity)
    } else {
        quote!(::holdfast_guest_sdk::operations::Operations)
    };
    Ok(quote! {
        const _: fn() = || {
            fn is_a_provider<T: #bound>() {}
            is_a_provider::<#provider>();
        };

        #[cfg(target_arch = "wasm32")]
        #[allow(clippy::mem_forget)]
        const _: () = {
            type Export = ::holdfast_guest_sdk::__private::Export<#provider>;
            #bindings::operations::__export_holdfast_provider_operations_0_1_0_cabi!(
                Export with_types_in #bindings::operations
            );
            #also

            #[used]
            #[unsafe(link_section = #manifest_section)]
            static MANIFEST: [u8; #manifest_len] =
                *::core::include_bytes!(::core::concat!(::core::env!("CARGO_MANIFEST_DIR"), "/", #file));

            #[used]
            #[unsafe(link_section = #section)]
            static COMPONENT_TYPE: [u8; #component_len] = *#component;
        };
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(input: &str) -> Result<String, String> {
        let input: Input = syn::parse_str(input).map_err(|e| e.to_string())?;
        expand(&input).map(|tokens| tokens.to_string()).map_err(|e| e.to_string())
    }

    #[test]
    fn a_manifest_that_breaks_a_rule_does_not_compile_and_says_line_and_rule() {
        let error = run("\"tests/manifests/bad.toml\", P").unwrap_err();
        assert!(error.contains("provider.toml:13:8: calls.reboot: an update needs"), "{error}");
        assert!(error.contains("(rule L3)"), "{error}");
    }

    #[test]
    fn a_missing_file_and_exports_that_disagree_are_errors() {
        assert!(run("\"nowhere.toml\", P").unwrap_err().contains("nowhere.toml"));
        let error = run("\"tests/manifests/good.toml\", P, capacity").unwrap_err();
        assert!(error.contains("(rule L11)"), "{error}");
        assert!(run("\"tests/manifests/good.toml\", P, nothing").unwrap_err().contains("third word"));
    }

    #[test]
    fn names_that_are_words_of_rust_are_still_names() {
        let code = run("\"tests/manifests/good.toml\", P").unwrap();
        syn::parse_str::<syn::File>(&code).unwrap();
        for expected in ["pub fn r#type", "r#match", "self_ : TypeSelf", "pub enum TypeSelf", "V2 ,"] {
            let flat = |s: &str| s.replace(' ', "");
            assert!(flat(&code).contains(&flat(expected)), "{expected} in {code}");
        }
    }

    #[test]
    fn the_worlds_of_the_contract_encode() {
        for world in ["operations-provider", "capacity-provider"] {
            assert!(!world::component_type(world).unwrap().is_empty());
        }
        assert!(world::component_type("no-such-world").is_err());
    }
}
