//! A module whose callbacks never end by themselves.

use anyhow::{Context, Result};
use std::borrow::Cow;
use wasm_encoder::{ComponentSection, CustomSection};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser::Resolve;

const MANIFEST: &str = r#"
[provider]
name = "spinner"
version = "0.1.0"
contract = "0.1"

[operations]
HostPowerOn = { mode = "long-running" }

[endpoints.api]
about = "Never called."
auth = "none"

[calls.look]
endpoint = "api"
effect = "read"
method = "GET"
path = "/v1/status"

[calls.look.fields]
state = { at = "json:/state", type = "word" }
"#;

/// The file.
pub fn module() -> Result<Vec<u8>> {
    let callbacks: String = ["execute", "begin", "poll", "cancel", "cleanup"]
        .map(|name| {
            format!(
                r#"(func (export "holdfast:provider/operations@0.1.0#{name}") (param i32) (result i32)
                     (loop $for_ever (br $for_ever)) (unreachable))"#
            )
        })
        .concat();
    let text = format!(
        r#"(module
             (memory (export "memory") 1)
             (global $free (mut i32) (i32.const 1024))
             (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
               (global.set $free (i32.and (i32.add (global.get $free) (i32.const 15)) (i32.const -8)))
               (global.get $free)
               (global.set $free (i32.add (global.get $free) (local.get 3))))
             {callbacks})"#
    );
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_path(concat!(env!("CARGO_MANIFEST_DIR"), "/../wit"))?;
    let world = resolve.select_world(&[package], Some("operations-provider"))?;
    let mut module = wat::parse_str(text)?;
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8)?;
    let component = ComponentEncoder::default().validate(true).module(&module)?.encode();
    let component = component.context("making the spinner a component")?;
    Ok(with_section(&component, holdfast_runtime::MANIFEST_SECTION, MANIFEST.as_bytes()))
}

/// The component with one more custom section.
pub fn with_section(component: &[u8], name: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = component.to_vec();
    CustomSection { name: Cow::Borrowed(name), data: Cow::Borrowed(data) }.append_to_component(&mut bytes);
    bytes
}
