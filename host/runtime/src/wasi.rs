//! The part of WASI that Rust's standard library needs to start, made inert.
//!
//! No environment, no arguments, no files, no sockets. Time stands still, sleeping takes none, random numbers follow
//! from the owner. Whatever is not in [`INTERFACES`] is not linked and a module that imports it is refused.

use crate::{halt::Halt, limits, output::Pipe, state::State};
use wasmtime::component::{HasData, HasSelf, Linker, Resource, ResourceTable};
use wasmtime_wasi::filesystem::{WasiFilesystem, WasiFilesystemCtxView};
use wasmtime_wasi::p2::bindings::{cli, clocks, filesystem, io, random};
use wasmtime_wasi::p2::pipe::ClosedInputStream;
use wasmtime_wasi::p2::{DynInputStream, DynOutputStream, DynPollable, Pollable, subscribe};

/// Interfaces of WASI 0.2 that a module may import.
pub(crate) const INTERFACES: [&str; 20] = [
    "wasi:cli/environment",
    "wasi:cli/exit",
    "wasi:cli/stderr",
    "wasi:cli/stdin",
    "wasi:cli/stdout",
    "wasi:cli/terminal-input",
    "wasi:cli/terminal-output",
    "wasi:cli/terminal-stderr",
    "wasi:cli/terminal-stdin",
    "wasi:cli/terminal-stdout",
    "wasi:clocks/monotonic-clock",
    "wasi:clocks/wall-clock",
    "wasi:filesystem/preopens",
    "wasi:filesystem/types",
    "wasi:io/error",
    "wasi:io/poll",
    "wasi:io/streams",
    "wasi:random/insecure",
    "wasi:random/insecure-seed",
    "wasi:random/random",
];

struct Table;
impl HasData for Table {
    type Data<'a> = &'a mut ResourceTable;
}

/// Links each interface of [`INTERFACES`] by name.
pub(crate) fn link(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    io::error::add_to_linker::<State, Table>(linker, |state| &mut state.table)?;
    io::poll::add_to_linker::<State, Table>(linker, |state| &mut state.table)?;
    io::streams::add_to_linker::<State, Table>(linker, |state| &mut state.table)?;
    filesystem::types::add_to_linker::<State, WasiFilesystem>(linker, files)?;
    filesystem::preopens::add_to_linker::<State, WasiFilesystem>(linker, files)?;
    clocks::wall_clock::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    clocks::monotonic_clock::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    random::random::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    random::insecure::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    random::insecure_seed::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    cli::environment::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    cli::exit::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    cli::stdin::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    cli::stdout::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    cli::stderr::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    cli::terminal_input::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    cli::terminal_output::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    cli::terminal_stdin::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    cli::terminal_stdout::add_to_linker::<State, HasSelf<State>>(linker, |state| state)?;
    cli::terminal_stderr::add_to_linker::<State, HasSelf<State>>(linker, |state| state)
}

fn files(state: &mut State) -> WasiFilesystemCtxView<'_> {
    WasiFilesystemCtxView { ctx: &mut state.files, table: &mut state.table }
}

impl clocks::wall_clock::Host for State {
    fn now(&mut self) -> wasmtime::Result<clocks::wall_clock::Datetime> {
        let seconds = u64::try_from(State::now(self)?.as_second()).unwrap_or(0);
        Ok(clocks::wall_clock::Datetime { seconds, nanoseconds: 0 })
    }

    fn resolution(&mut self) -> wasmtime::Result<clocks::wall_clock::Datetime> {
        Ok(clocks::wall_clock::Datetime { seconds: 1, nanoseconds: 0 })
    }
}

const SECOND: u64 = 1_000_000_000;

impl clocks::monotonic_clock::Host for State {
    fn now(&mut self) -> wasmtime::Result<u64> {
        State::now(self)?;
        Ok(SECOND)
    }

    fn resolution(&mut self) -> wasmtime::Result<u64> {
        Ok(SECOND)
    }

    fn subscribe_instant(&mut self, _when: u64) -> wasmtime::Result<Resource<DynPollable>> {
        self.no_wait()
    }

    fn subscribe_duration(&mut self, _length: u64) -> wasmtime::Result<Resource<DynPollable>> {
        self.no_wait()
    }
}

/// Always ready: a guest that sleeps would hold an instance for nothing.
struct NoWait;

#[async_trait::async_trait]
impl Pollable for NoWait {
    async fn ready(&mut self) {}
}

impl State {
    fn no_wait(&mut self) -> wasmtime::Result<Resource<DynPollable>> {
        State::now(self)?;
        let ready = self.table.push(NoWait)?;
        subscribe(&mut self.table, ready)
    }

    fn random_bytes(&mut self, length: u64) -> wasmtime::Result<Vec<u8>> {
        if length > limits::RANDOM_BYTES {
            return Err(Halt::violation(
                "TooLarge",
                format!("the module asked for {length} random bytes; {} are allowed", limits::RANDOM_BYTES),
            )
            .into());
        }
        let mut bytes = vec![0; length as usize];
        self.random()?.fill(&mut bytes);
        Ok(bytes)
    }
}

impl random::random::Host for State {
    fn get_random_bytes(&mut self, length: u64) -> wasmtime::Result<Vec<u8>> {
        self.random_bytes(length)
    }

    fn get_random_u64(&mut self) -> wasmtime::Result<u64> {
        Ok(self.random()?.next_u64())
    }
}

impl random::insecure::Host for State {
    fn get_insecure_random_bytes(&mut self, length: u64) -> wasmtime::Result<Vec<u8>> {
        self.random_bytes(length)
    }

    fn get_insecure_random_u64(&mut self) -> wasmtime::Result<u64> {
        Ok(self.random()?.next_u64())
    }
}

impl random::insecure_seed::Host for State {
    fn insecure_seed(&mut self) -> wasmtime::Result<(u64, u64)> {
        let random = self.random()?;
        Ok((random.next_u64(), random.next_u64()))
    }
}

impl cli::environment::Host for State {
    fn get_environment(&mut self) -> wasmtime::Result<Vec<(String, String)>> {
        Ok(Vec::new())
    }

    fn get_arguments(&mut self) -> wasmtime::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn initial_cwd(&mut self) -> wasmtime::Result<Option<String>> {
        Ok(None)
    }
}

impl cli::exit::Host for State {
    fn exit(&mut self, _status: Result<(), ()>) -> wasmtime::Result<()> {
        Err(Halt::Exit.into())
    }

    fn exit_with_code(&mut self, _code: u8) -> wasmtime::Result<()> {
        Err(Halt::Exit.into())
    }
}

impl cli::stdin::Host for State {
    fn get_stdin(&mut self) -> wasmtime::Result<Resource<DynInputStream>> {
        let stream: DynInputStream = Box::new(ClosedInputStream);
        Ok(self.table.push(stream)?)
    }
}

impl cli::stdout::Host for State {
    fn get_stdout(&mut self) -> wasmtime::Result<Resource<DynOutputStream>> {
        let stream = self.output.stream(Pipe::Stdout);
        Ok(self.table.push(stream)?)
    }
}

impl cli::stderr::Host for State {
    fn get_stderr(&mut self) -> wasmtime::Result<Resource<DynOutputStream>> {
        let stream = self.output.stream(Pipe::Stderr);
        Ok(self.table.push(stream)?)
    }
}

impl cli::terminal_input::Host for State {}
impl cli::terminal_input::HostTerminalInput for State {
    fn drop(&mut self, terminal: Resource<cli::terminal_input::TerminalInput>) -> wasmtime::Result<()> {
        self.table.delete(terminal)?;
        Ok(())
    }
}

impl cli::terminal_output::Host for State {}
impl cli::terminal_output::HostTerminalOutput for State {
    fn drop(&mut self, terminal: Resource<cli::terminal_output::TerminalOutput>) -> wasmtime::Result<()> {
        self.table.delete(terminal)?;
        Ok(())
    }
}

impl cli::terminal_stdin::Host for State {
    fn get_terminal_stdin(
        &mut self,
    ) -> wasmtime::Result<Option<Resource<cli::terminal_input::TerminalInput>>> {
        Ok(None)
    }
}

impl cli::terminal_stdout::Host for State {
    fn get_terminal_stdout(
        &mut self,
    ) -> wasmtime::Result<Option<Resource<cli::terminal_output::TerminalOutput>>> {
        Ok(None)
    }
}

impl cli::terminal_stderr::Host for State {
    fn get_terminal_stderr(
        &mut self,
    ) -> wasmtime::Result<Option<Resource<cli::terminal_output::TerminalOutput>>> {
        Ok(None)
    }
}
