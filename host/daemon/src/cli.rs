//! The command line.

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;

#[derive(Parser)]
#[command(name = "holdfast", version, about = "Runs machine providers that nobody has to trust.")]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Run the daemon.
    Run(WithConfig),
    /// Watch the whole house at work on a simulated cloud: no account, no cluster, nothing left behind.
    Demo(Demo),
    /// The configuration file.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Provider modules.
    #[command(subcommand)]
    Provider(ProviderCommand),
    /// Print the kubeconfig of a running daemon.
    Kubeconfig(WithConfig),
    /// Say why an object is as it is, since when and until when, what happens next, what was sent and what came back.
    Explain(Explain),
}

#[derive(Args)]
pub struct WithConfig {
    /// Configuration file.
    #[arg(long, short, default_value = "/etc/holdfast/holdfast.toml")]
    pub config: PathBuf,
}

#[derive(Args)]
pub struct Explain {
    /// KIND/NAME: a provider, machine, machineclass, machineallocation or machineoperation.
    pub object: String,
    /// Configuration file of the daemon, for its kubeconfig.
    #[arg(long, short, default_value = "/etc/holdfast/holdfast.toml")]
    pub config: PathBuf,
    /// Ask through this kubeconfig instead.
    #[arg(long)]
    pub kubeconfig: Option<PathBuf>,
}

#[derive(Args)]
pub struct Demo {
    /// Keep the demo's folder (config, store, log) and print where it is.
    #[arg(long)]
    pub keep: bool,
    /// Use this module instead of building the simulated provider.
    #[arg(long)]
    pub module: Option<PathBuf>,
    /// After the story, go on serving the API until interrupted.
    #[arg(long)]
    pub stay: bool,
}

#[derive(Subcommand)]
pub enum ConfigCommand {
    /// Check the file and print the effective policy in words. Fails if a CA file or a secret that it names cannot be
    /// read here.
    Check(WithConfig),
}

#[derive(Subcommand)]
pub enum ProviderCommand {
    /// Build a provider crate for wasm32-wasip2.
    Build {
        /// Folder of the crate, with its provider.toml.
        folder: PathBuf,
        /// Where to put the module; default: NAME.wasm in the current folder.
        #[arg(long, short)]
        output: Option<PathBuf>,
    },
    /// Say in sentences what a module does, asks for and may destroy, and the lines that would approve it.
    Inspect {
        file: PathBuf,
        /// An earlier revision of the module: print what changes in meaning.
        #[arg(long)]
        since: Option<PathBuf>,
    },
    /// Put a manifest into a component that another toolchain built.
    Pack {
        component: PathBuf,
        #[arg(long)]
        manifest: PathBuf,
        #[arg(long, short)]
        output: PathBuf,
    },
    /// Project a recorded reply as the host would, and say which field does not fit and why.
    Try(Try),
}

#[derive(Args)]
pub struct Try {
    /// Name of the declared call.
    pub call: String,
    /// A module, or a provider.toml.
    #[arg(long, default_value = "provider.toml")]
    pub provider: PathBuf,
    /// File with the reply's body.
    #[arg(long)]
    pub reply: PathBuf,
    /// Status of the reply; default: the first that the call accepts.
    #[arg(long)]
    pub status: Option<u16>,
    /// A header of the reply, `Name: value`; may be repeated.
    #[arg(long)]
    pub header: Vec<String>,
}
