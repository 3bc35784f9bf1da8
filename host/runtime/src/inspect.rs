//! Reads a module without running or compiling it: names, manifest and counts, each checked before Cranelift sees it
//! (attack 78).

use crate::error::LoadError;
use crate::{limits, wasi};
use holdfast_manifest::Manifest;
use std::sync::Arc;
use wasmparser::{Encoding, Parser, Payload, Validator, WasmFeatures};
use wasmtime::Engine;

/// Version of `holdfast:provider` that this host speaks: major and minor.
pub const CONTRACT: &str = "0.1";
/// Custom section of the module that holds `provider.toml`.
pub const MANIFEST_SECTION: &str = "holdfast:manifest";

const PACKAGE: &str = "holdfast:provider/";
/// Interfaces that a module may import.
const IMPORTS: [&str; 5] = ["types", "custody", "calls", "log", "clock"];
/// Interfaces of the contract that this version does not serve yet.
const NOT_YET: [&str; 3] = ["cluster-model", "control-plane-machines", "inventory"];

/// What a module says of itself.
#[derive(Debug, Clone)]
pub struct Inspected {
    /// SHA-256 of the file, lower-case hex.
    pub digest: String,
    /// Bytes of the file.
    pub size: usize,
    pub manifest: Arc<Manifest>,
    /// Contract version that the imports and exports name, for example `0.1.0`.
    pub contract: String,
    /// Names of the component's imports and exports, as written.
    pub imports: Vec<String>,
    pub exports: Vec<String>,
}

impl Inspected {
    /// Does the module export `capacity`?
    pub fn has_capacity(&self) -> bool {
        interfaces(&self.exports).any(|name| name == "capacity")
    }
}

/// Checks all of a module that can be checked without compiling it.
///
/// # Errors
/// Every [`LoadError`] but `Compile` and `Types`.
pub fn inspect(bytes: &[u8]) -> Result<Inspected, LoadError> {
    if bytes.len() > limits::MODULE_BYTES {
        return Err(LoadError::TooLarge { size: bytes.len(), limit: limits::MODULE_BYTES });
    }
    if Engine::detect_precompiled(bytes).is_some() {
        return Err(LoadError::Precompiled);
    }
    if !bytes.starts_with(b"\0asm") {
        return Err(LoadError::NotWasm);
    }
    let outline = Outline::read(bytes)?;
    let contract = contract(&outline)?;
    let manifest = manifest(&outline)?;
    check_imports(&outline.imports)?;
    check_exports(&outline.exports)?;
    agree(&manifest, &contract, &outline.exports)?;
    Validator::new_with_features(features()).validate_all(bytes).map_err(damaged)?;
    Ok(Inspected {
        digest: digest(bytes),
        size: bytes.len(),
        manifest: Arc::new(manifest),
        contract,
        imports: outline.imports,
        exports: outline.exports,
    })
}

/// SHA-256, lower-case hex.
pub(crate) fn digest(bytes: &[u8]) -> String {
    data_encoding::HEXLOWER.encode(ring::digest::digest(&ring::digest::SHA256, bytes).as_ref())
}

/// What wasm32-wasip2 components of Rust use, and nothing more (attack 92).
pub(crate) fn features() -> WasmFeatures {
    WasmFeatures::MUTABLE_GLOBAL
        | WasmFeatures::SATURATING_FLOAT_TO_INT
        | WasmFeatures::SIGN_EXTENSION
        | WasmFeatures::REFERENCE_TYPES
        | WasmFeatures::MULTI_VALUE
        | WasmFeatures::BULK_MEMORY
        | WasmFeatures::SIMD
        | WasmFeatures::FLOATS
        | WasmFeatures::EXTENDED_CONST
        | WasmFeatures::COMPONENT_MODEL
        | WasmFeatures::GC_TYPES
}

/// The names and counts of a file, in one pass over its sections.
#[derive(Default)]
struct Outline<'a> {
    imports: Vec<String>,
    exports: Vec<String>,
    manifests: Vec<&'a [u8]>,
}

impl<'a> Outline<'a> {
    fn read(bytes: &'a [u8]) -> Result<Outline<'a>, LoadError> {
        let mut outline = Outline::default();
        let mut counts = Counts::default();
        // 1 inside the outer component.
        let mut depth = 0_u32;
        for payload in Parser::new(0).parse_all(bytes) {
            match payload.map_err(damaged)? {
                Payload::Version { encoding: Encoding::Module, .. } if depth == 0 => {
                    return Err(LoadError::CoreModule);
                }
                Payload::Version { encoding, .. } => {
                    depth += 1;
                    counts.part(encoding)?;
                }
                Payload::End(_) => depth = depth.saturating_sub(1),
                Payload::ComponentImportSection(section) if depth == 1 => {
                    counts.imports(section.count())?;
                    for import in section {
                        outline.imports.push(import.map_err(damaged)?.name.name.to_owned());
                    }
                }
                Payload::ComponentExportSection(section) if depth == 1 => {
                    counts.exports(section.count())?;
                    for export in section {
                        outline.exports.push(export.map_err(damaged)?.name.name.to_owned());
                    }
                }
                Payload::FunctionSection(section) => counts.functions(section.count())?,
                Payload::CustomSection(section) => {
                    counts.custom()?;
                    if section.name() == MANIFEST_SECTION {
                        outline.manifests.push(section.data());
                    }
                }
                _ => {}
            }
        }
        Ok(outline)
    }
}

#[derive(Default)]
struct Counts {
    modules: usize,
    components: usize,
    functions: u64,
    imports: usize,
    exports: usize,
    custom: usize,
}

impl Counts {
    fn part(&mut self, encoding: Encoding) -> Result<(), LoadError> {
        match encoding {
            Encoding::Module => {
                self.modules += 1;
                at_most("core modules", self.modules as u64, limits::CORE_MODULES as u64)
            }
            Encoding::Component => {
                self.components += 1;
                at_most("nested components", self.components as u64, limits::COMPONENTS as u64)
            }
        }
    }

    fn functions(&mut self, count: u32) -> Result<(), LoadError> {
        self.functions += u64::from(count);
        at_most("functions", self.functions, limits::FUNCTIONS)
    }

    fn imports(&mut self, count: u32) -> Result<(), LoadError> {
        self.imports += count as usize;
        at_most("imports", self.imports as u64, limits::IMPORTS as u64)
    }

    fn exports(&mut self, count: u32) -> Result<(), LoadError> {
        self.exports += count as usize;
        at_most("exports", self.exports as u64, limits::EXPORTS as u64)
    }

    fn custom(&mut self) -> Result<(), LoadError> {
        self.custom += 1;
        at_most("custom sections", self.custom as u64, limits::CUSTOM_SECTIONS as u64)
    }
}

fn at_most(what: &'static str, count: u64, limit: u64) -> Result<(), LoadError> {
    if count > limit { Err(LoadError::TooMany { what, limit }) } else { Ok(()) }
}

fn damaged(error: wasmparser::BinaryReaderError) -> LoadError {
    LoadError::Malformed(format!("{} at byte {}", error.message(), error.offset()))
}

/// `holdfast:provider/calls@0.1.0` as (`holdfast:provider/calls`, `0.1.0`).
fn split(name: &str) -> (&str, &str) {
    name.split_once('@').unwrap_or((name, ""))
}

/// The version that every name of our package carries.
fn contract(outline: &Outline<'_>) -> Result<String, LoadError> {
    let ours = outline.exports.iter().chain(&outline.imports).map(|name| split(name));
    let mut found: Option<&str> = None;
    for (interface, version) in ours {
        if !interface.starts_with(PACKAGE) {
            continue;
        }
        if version.rsplit_once('.').map(|(minor, _)| minor) != Some(CONTRACT) {
            let module = if version.is_empty() { "no version" } else { version };
            return Err(LoadError::Contract { module: module.to_owned() });
        }
        found = found.or(Some(version));
    }
    found.map(str::to_owned).ok_or(LoadError::NoContract)
}

fn manifest(outline: &Outline<'_>) -> Result<Manifest, LoadError> {
    let bytes = match outline.manifests.as_slice() {
        [] => return Err(LoadError::NoManifest),
        [one] => *one,
        several => return Err(LoadError::SeveralManifests(several.len())),
    };
    if bytes.len() > limits::MANIFEST_BYTES {
        return Err(LoadError::ManifestTooLarge { size: bytes.len() });
    }
    let text = std::str::from_utf8(bytes).map_err(|_| LoadError::ManifestNotText)?;
    Manifest::parse(text).map_err(|error| LoadError::Manifest(error.to_string()))
}

fn check_imports(names: &[String]) -> Result<(), LoadError> {
    for name in names {
        let (interface, version) = split(name);
        let refused = |rule| Err(LoadError::Import { name: name.clone(), rule });
        if let Some(ours) = interface.strip_prefix(PACKAGE) {
            if NOT_YET.contains(&ours) {
                return Err(LoadError::NotYetServed { what: format!("the interface `{ours}`") });
            }
            if !IMPORTS.contains(&ours) {
                return refused("the contract has no such import");
            }
        } else if interface.starts_with("wasi:sockets/") || interface.starts_with("wasi:http/") {
            return refused("the only way out of the sandbox is `holdfast:provider/calls`");
        } else if !wasi::INTERFACES.contains(&interface) {
            return refused("only the contract's interfaces and the inert part of WASI 0.2 are linked");
        } else if !version.starts_with("0.2.") {
            return refused("WASI is linked in version 0.2 only");
        }
    }
    Ok(())
}

fn check_exports(names: &[String]) -> Result<(), LoadError> {
    for name in names {
        match split(name).0.strip_prefix(PACKAGE) {
            Some("operations" | "capacity") => {}
            Some(later) if NOT_YET.contains(&later) => {
                return Err(LoadError::NotYetServed { what: format!("the interface `{later}`") });
            }
            _ => return Err(LoadError::Export { name: name.clone() }),
        }
    }
    if interfaces(names).any(|name| name == "operations") { Ok(()) } else { Err(LoadError::NoContract) }
}

/// Names of the contract's interfaces, without package and version.
fn interfaces(names: &[String]) -> impl Iterator<Item = &str> {
    names.iter().filter_map(|name| split(name).0.strip_prefix(PACKAGE))
}

/// L11: what is exported and what is registered agree.
fn agree(manifest: &Manifest, contract: &str, exports: &[String]) -> Result<(), LoadError> {
    if !contract.starts_with(&manifest.provider.contract) {
        return Err(LoadError::Disagreement(format!(
            "provider.toml says contract = \"{}\" and the module speaks {contract}; write contract = \"{CONTRACT}\"",
            manifest.provider.contract
        )));
    }
    let names: Vec<&str> = interfaces(exports).collect();
    manifest.check_exports(&names).map_err(|errors| LoadError::Disagreement(errors.to_string()))
}
