//! `holdfast provider build`: one crate to one module, with everything it needs installed first.

use anyhow::{Context, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "wasm32-wasip2";

/// Builds the crate in `folder` and puts the module at `output`. Cargo's own progress goes to the terminal.
pub fn build(folder: &Path, output: Option<&Path>) -> anyhow::Result<PathBuf> {
    if !folder.join("provider.toml").is_file() {
        bail!("{} holds no provider.toml", folder.display());
    }
    ensure_target()?;
    let meta = metadata(folder)?;
    let target = meta.target.join("wasm");
    eprintln!("building {} for {TARGET}", meta.package);
    let status = cargo()
        .current_dir(folder)
        .args(["build", "--release", "--lib", "--target", TARGET, "--package", &meta.package])
        .args(["--config", "profile.release.opt-level='s'", "--config", "profile.release.lto=true"])
        .args(["--config", "profile.release.strip=true"])
        .arg("--target-dir")
        .arg(&target)
        .status()
        .context("cargo cannot be run; install Rust with rustup")?;
    if !status.success() {
        bail!("the module did not build");
    }
    let built = target.join(TARGET).join("release").join(format!("{}.wasm", meta.package.replace('-', "_")));
    let output = match output {
        Some(path) => path.to_path_buf(),
        None => PathBuf::from(format!("{}.wasm", meta.short_name())),
    };
    place(&built, &output)?;
    Ok(output)
}

/// Puts the file in place by rename, so that a daemon that watches the folder never reads half of it.
fn place(built: &Path, output: &Path) -> anyhow::Result<()> {
    let partial = output.with_extension("wasm.partial");
    std::fs::copy(built, &partial)
        .with_context(|| format!("{} cannot be copied to {}", built.display(), partial.display()))?;
    std::fs::rename(&partial, output).with_context(|| format!("{} cannot be written", output.display()))
}

/// Adds the wasm target where the toolchain lacks it.
pub fn ensure_target() -> anyhow::Result<()> {
    let sysroot =
        Command::new("rustc").args(["--print", "sysroot"]).output().context("rustc cannot be run")?;
    let sysroot = PathBuf::from(String::from_utf8_lossy(&sysroot.stdout).trim());
    if sysroot.join("lib/rustlib").join(TARGET).is_dir() {
        return Ok(());
    }
    eprintln!("adding the {TARGET} target to the toolchain");
    let added = Command::new("rustup").args(["target", "add", TARGET]).status();
    match added {
        Ok(status) if status.success() => Ok(()),
        _ => bail!("the toolchain has no {TARGET} target and `rustup target add {TARGET}` failed"),
    }
}

struct Metadata {
    package: String,
    target: PathBuf,
}

impl Metadata {
    fn short_name(&self) -> &str {
        self.package.strip_prefix("holdfast-provider-").unwrap_or(&self.package)
    }
}

fn metadata(folder: &Path) -> anyhow::Result<Metadata> {
    let output = cargo()
        .current_dir(folder)
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .output()
        .context("cargo cannot be run; install Rust with rustup")?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let meta: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let manifest = std::fs::canonicalize(folder.join("Cargo.toml"))
        .with_context(|| format!("{} holds no Cargo.toml", folder.display()))?;
    let package = meta["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|package| package["manifest_path"].as_str().map(Path::new) == Some(&manifest))
        .and_then(|package| package["name"].as_str())
        .with_context(|| format!("{} is no package", folder.display()))?;
    let target = meta["target_directory"].as_str().context("cargo names no target directory")?;
    Ok(Metadata { package: package.to_string(), target: PathBuf::from(target) })
}

/// Cargo as the user runs it: flags of an outer cargo invocation must not reach the wasm build.
fn cargo() -> Command {
    let mut command = Command::new("cargo");
    for name in ["CARGO_ENCODED_RUSTFLAGS", "RUSTFLAGS", "CARGO_BUILD_TARGET", "CARGO_TARGET_DIR"] {
        command.env_remove(name);
    }
    command
}
