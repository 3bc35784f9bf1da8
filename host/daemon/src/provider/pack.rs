//! `holdfast provider pack`: a manifest into a component that any toolchain built.

use anyhow::{Context, bail};
use holdfast_manifest::Manifest;
use std::path::Path;
use wasm_encoder::{ComponentSection, CustomSection};
use wasmparser::{Parser, Payload};

/// Writes `component` with the manifest as its `holdfast:manifest` section to `output`.
pub fn pack(component: &Path, manifest: &Path, output: &Path) -> anyhow::Result<()> {
    let bytes =
        std::fs::read(component).with_context(|| format!("{} cannot be read", component.display()))?;
    let text = std::fs::read_to_string(manifest)
        .with_context(|| format!("{} cannot be read", manifest.display()))?;
    let packed = with_manifest(&bytes, &text)?;
    std::fs::write(output, packed).with_context(|| format!("{} cannot be written", output.display()))
}

/// Appends the section after checking the manifest and that the component has none yet.
pub fn with_manifest(component: &[u8], manifest: &str) -> anyhow::Result<Vec<u8>> {
    Manifest::parse(manifest).map_err(|errors| anyhow::anyhow!("{errors}"))?;
    if !Parser::is_component(component) {
        bail!("this is no WebAssembly component; build for wasm32-wasip2, or wrap the core module first");
    }
    for payload in Parser::new(0).parse_all(component) {
        if let Payload::CustomSection(section) = payload.context("the component does not parse")?
            && section.name() == holdfast_manifest::SECTION
        {
            bail!("the component already holds a manifest");
        }
    }
    let mut packed = component.to_vec();
    let section = CustomSection { name: holdfast_manifest::SECTION.into(), data: manifest.as_bytes().into() };
    section.append_to_component(&mut packed);
    Ok(packed)
}
