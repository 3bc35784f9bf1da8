//! The module `calls`: one typed function per declared call.

use crate::idents::{camel_text, snake, type_text};
use holdfast_manifest::{Arg, Call, EffectKind, Field, Manifest, PathTemplate, PatternPart, Type};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use std::collections::{BTreeMap, BTreeSet};

/// `span` is the author's own.
pub(crate) fn module(manifest: &Manifest, span: Span) -> TokenStream {
    let calls = manifest.calls.values().filter(|call| call.effect != EffectKind::Session);
    let functions = calls.map(|call| function(manifest, call, span));
    let provider_id = manifest.provider.provider_id.as_ref().map(|pattern| provider_id(&pattern.parts, span));
    let targets = manifest.provider.targets.iter().map(|(kind, pointer)| {
        let name = snake(&format!("target-{kind}"), span);
        let pointer = pointer.to_string();
        let doc = format!("The machine's `{kind}`, read from `{pointer}` of its machine object.");
        quote! {
            #[doc = #doc]
            #[allow(dead_code)]
            pub fn #name(
                machine: &::holdfast_guest_sdk::operations::Machine,
            ) -> ::core::result::Result<::std::string::String, ::holdfast_guest_sdk::Error> {
                machine.object_value(#pointer)
            }
        }
    });
    quote! {
        /// The manifest's calls as functions.
        #[allow(clippy::too_many_arguments, clippy::enum_variant_names, clippy::large_enum_variant)]
        mod calls {
            #(#functions)*
            #provider_id
            #(#targets)*
        }
    }
}

fn function(manifest: &Manifest, call: &Call, span: Span) -> TokenStream {
    let name = &call.name;
    let ident = snake(name, span);
    let base = type_text(name);
    let reply = Ident::new(&base, span);
    let mut types = fields_struct(&base, &call.fields, true, span);
    let mut params = TokenStream::new();
    let mut steps = TokenStream::new();
    if call.effect.mutates() {
        params.extend(quote!(key: &str,));
    }
    if manifest.needs_credentials(call) {
        params.extend(quote!(credentials: ::holdfast_guest_sdk::Credentials<'_>,));
        steps.extend(quote!(let request = request.credentials(credentials);));
    }
    for (slot, _) in call.user_data_slots() {
        let param = free(snake(slot, span), &call.args, span);
        params.extend(quote!(#param: ::holdfast_guest_sdk::UserData<'_>,));
        steps.extend(quote!(let request = request.user_data(#slot, #param);));
    }
    for optional in [false, true] {
        for (arg_name, arg) in
            call.args.iter().filter(|(_, arg)| arg.optional == optional && arg.is_given(call.effect))
        {
            let param = argument(arg_name, span);
            let (ty, one_of) = arg_type(&base, arg_name, arg, span);
            types.extend(one_of);
            if optional {
                params.extend(quote!(#param: ::core::option::Option<#ty>,));
                steps.extend(quote!(let request = request.optional(#arg_name, #param);));
            } else {
                params.extend(quote!(#param: #ty,));
                steps.extend(quote!(let request = request.arg(#arg_name, #param);));
            }
        }
    }
    let (output, send) = if call.effect.mutates() {
        (quote!(::holdfast_guest_sdk::Outcome<#reply>), quote!(request.perform(key)))
    } else {
        (quote!(#reply), quote!(request.read()))
    };
    let body = quote! {
        let request = ::holdfast_guest_sdk::__private::Request::new(#name);
        #steps
        #send
    };
    // The compiler warns of an unused function only where its first and last token are the author's.
    let item = quote_spanned! {span=>
        pub fn #ident(#params) -> ::core::result::Result<#output, ::holdfast_guest_sdk::Error> { #body }
    };
    let doc = documentation(call);
    let quiet = host_runs(manifest, name).then(|| quote!(#[allow(dead_code)]));
    quote! {
        #types
        #quiet
        #[doc = #doc]
        #item
    }
}

/// Is the call of use without the guest: as a lookup, or as the list of what is owned?
fn host_runs(manifest: &Manifest, name: &str) -> bool {
    let looks_up = |call: &Call| call.lookup().is_some_and(|lookup| lookup.call == name);
    manifest.provider.list_owned.as_deref() == Some(name) || manifest.calls.values().any(looks_up)
}

fn documentation(call: &Call) -> String {
    let effect = match call.effect {
        EffectKind::Read => "Reads",
        EffectKind::Create => "Creates",
        EffectKind::Update => "Updates",
        EffectKind::Destroy => "Destroys",
        EffectKind::Session => "Logs in or out",
    };
    let target = call.path.as_ref().map_or("a sealed URL", |PathTemplate { text, .. }| text);
    let mut doc = format!("{effect}: `{} {target}` at endpoint `{}`.", call.method.as_str(), call.endpoint);
    for (name, arg) in call.args.iter().filter(|(_, arg)| arg.is_given(call.effect)) {
        let what = match (&arg.from, &arg.on) {
            (holdfast_manifest::Source::Token, _) => "the key whose token is looked for".to_owned(),
            (holdfast_manifest::Source::Field { call, field }, _) => format!("a value of `{call}.{field}`"),
            (_, Some(kind)) => format!("a target of kind `{kind}`"),
            _ if !arg.one_of.is_empty() => "one of the declared words".to_owned(),
            _ => format!("of type {}", arg.ty),
        };
        doc.push_str(&format!("\n\n* `{name}`: {what}"));
    }
    doc
}

/// A parameter's name that meets none of the client's own.
fn argument(name: &str, span: Span) -> Ident {
    match name {
        "key" | "credentials" | "request" => snake(&format!("{name}-arg"), span),
        name => snake(name, span),
    }
}

fn free(ident: Ident, args: &BTreeMap<String, Arg>, span: Span) -> Ident {
    let taken =
        args.keys().any(|name| argument(name, span) == ident) || ident == "key" || ident == "credentials";
    if taken { Ident::new(&format!("{ident}_slot"), span) } else { ident }
}

fn arg_type(base: &str, name: &str, arg: &Arg, span: Span) -> (TokenStream, Option<TokenStream>) {
    let (one, declared) = if arg.one_of.is_empty() {
        let ty = match arg.ty {
            Type::Int | Type::Size if given_as_text(arg) => quote!(&str),
            Type::Int => quote!(i64),
            Type::Size => quote!(u64),
            Type::Bool => quote!(bool),
            Type::Sealed => quote!(&::holdfast_guest_sdk::Sealed),
            _ => quote!(&str),
        };
        (ty, None)
    } else {
        let ident = Ident::new(&format!("{base}{}", camel_text(name)), span);
        let declared = one_of(&ident, &arg.one_of, span);
        (quote!(#ident), Some(declared))
    };
    if !arg.is_list() {
        return (one, declared);
    }
    let item = match (arg.ty, arg.one_of.is_empty()) {
        (Type::Sealed, true) => quote!(::holdfast_guest_sdk::Sealed),
        (Type::Int | Type::Bool | Type::Size, true) | (_, false) => one,
        _ => quote!(::std::string::String),
    };
    (quote!(::std::vec::Vec<#item>), declared)
}

/// A read's token argument is given by its key's name, whatever the token is written as.
fn given_as_text(arg: &Arg) -> bool {
    arg.from == holdfast_manifest::Source::Token
}

fn one_of(ident: &Ident, words: &[String], span: Span) -> TokenStream {
    let mut seen = BTreeSet::new();
    let variants: Vec<Ident> = words
        .iter()
        .map(|word| {
            let mut text = type_text(word);
            while !seen.insert(text.clone()) {
                text.push('_');
            }
            Ident::new(&text, span)
        })
        .collect();
    let doc = format!("The words `{}`.", words.join("`, `"));
    quote! {
        #[doc = #doc]
        #[allow(dead_code, non_camel_case_types)]
        #[derive(Debug, Clone, Copy, PartialEq, Eq, ::holdfast_guest_sdk::__private::serde::Serialize)]
        #[serde(crate = "::holdfast_guest_sdk::__private::serde")]
        pub enum #ident {
            #(#[serde(rename = #words)] #variants,)*
        }

        #[allow(dead_code)]
        impl #ident {
            /// Every word.
            pub const ALL: &'static [#ident] = &[#(#ident::#variants),*];

            /// The word as the service spells it.
            pub fn as_str(self) -> &'static str {
                match self {
                    #(#ident::#variants => #words,)*
                }
            }
        }
    }
}

/// The struct of a call's fields, or of one element of a list.
fn fields_struct(base: &str, fields: &BTreeMap<String, Field>, top: bool, span: Span) -> TokenStream {
    let ident = Ident::new(base, span);
    let mut members = TokenStream::new();
    let mut inner = TokenStream::new();
    for (name, field) in fields {
        let member = snake(name, span);
        let (ty, declared) = field_type(&format!("{base}{}", camel_text(name)), field, span);
        inner.extend(declared);
        let doc = format!("`{name}`");
        let (ty, default) = if field.optional {
            (quote!(::core::option::Option<#ty>), quote!(default,))
        } else {
            (ty, TokenStream::new())
        };
        members.extend(quote!(#[doc = #doc] #[serde(#default rename = #name)] pub #member: #ty,));
    }
    let status = top.then(|| quote!(/** HTTP status of the reply. */ #[serde(skip)] pub status: u16,));
    let implementation = top.then(|| {
        quote! {
            impl ::holdfast_guest_sdk::__private::Fields for #ident {
                fn set_status(&mut self, status: u16) {
                    self.status = status;
                }
            }
        }
    });
    let doc = if top { "The declared fields of the reply." } else { "One element of the list." };
    quote! {
        #inner
        #[doc = #doc]
        #[allow(dead_code)]
        #[derive(Debug, Clone, PartialEq, ::holdfast_guest_sdk::__private::serde::Deserialize)]
        #[serde(crate = "::holdfast_guest_sdk::__private::serde")]
        pub struct #ident {
            #members
            #status
        }
        #implementation
    }
}

fn field_type(base: &str, field: &Field, span: Span) -> (TokenStream, Option<TokenStream>) {
    let (one, declared) = match &field.each {
        Some(each) => {
            let ident = Ident::new(base, span);
            (quote!(#ident), Some(fields_struct(base, each, false, span)))
        }
        None => {
            let ty = match field.ty {
                Type::Int => quote!(i64),
                Type::Size => quote!(u64),
                Type::Bool => quote!(bool),
                Type::Sealed => quote!(::holdfast_guest_sdk::Sealed),
                _ => quote!(::std::string::String),
            };
            (ty, None)
        }
    };
    if field.is_list() { (quote!(::std::vec::Vec<#one>), declared) } else { (one, declared) }
}

/// `calls::ProviderId`: the pattern's values by name.
fn provider_id(parts: &[PatternPart], span: Span) -> TokenStream {
    let mut members = TokenStream::new();
    let mut read = TokenStream::new();
    let mut write = TokenStream::new();
    let mut names = Vec::new();
    for (n, part) in parts.iter().enumerate() {
        match part {
            PatternPart::Literal(text) => {
                read.extend(quote!(let rest = rest.strip_prefix(#text)?;));
                write.extend(quote!(out.push_str(#text);));
            }
            PatternPart::Hole(kind) => {
                let name = snake(kind, span);
                let doc = format!("The `{kind}`.");
                members.extend(quote!(#[doc = #doc] pub #name: ::std::string::String,));
                let end = match parts.get(n + 1) {
                    Some(PatternPart::Literal(next)) => quote!(rest.find(#next)?),
                    _ => quote!(rest.len()),
                };
                read.extend(quote! {
                    let (#name, rest) = rest.split_at(#end);
                    if #name.is_empty() || #name.contains('/') { return ::core::option::Option::None; }
                });
                write.extend(quote!(out.push_str(&self.#name);));
                names.push(name);
            }
        }
    }
    quote! {
        /// A provider ID, taken apart by the manifest's `provider-id`.
        #[allow(dead_code)]
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct ProviderId {
            #members
        }

        #[allow(dead_code)]
        impl ProviderId {
            /// The parts of a text that fits the pattern.
            pub fn parse(text: &str) -> ::core::option::Option<ProviderId> {
                let rest = text;
                #read
                rest.is_empty().then(|| ProviderId { #(#names: #names.to_owned()),* })
            }

            /// The parts of a machine's provider ID.
            pub fn of(
                machine: &::holdfast_guest_sdk::operations::Machine,
            ) -> ::core::result::Result<ProviderId, ::holdfast_guest_sdk::Error> {
                let text = machine.require_provider_id()?;
                ProviderId::parse(text).ok_or_else(|| {
                    ::holdfast_guest_sdk::Error::invalid_input(
                        "ProviderIDInvalid",
                        ::std::format!("the provider ID {text} is none of this provider's"),
                    )
                })
            }

            /// The provider ID as text.
            pub fn text(&self) -> ::std::string::String {
                let mut out = ::std::string::String::new();
                #write
                out
            }
        }
    }
}
