//! What a guest says: log lines, and stdout and stderr cut into lines. Bounded in count and size per callback.

use crate::{halt::Halt, limits, shape::cut};
use bytes::Bytes;
use holdfast_effects::{LogLevel, LogLine, Port};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use wasmtime_wasi::p2::{OutputStream, Pollable, StreamError, StreamResult};

/// The sink of one callback, shared by its streams.
#[derive(Clone)]
pub(crate) struct Output(Arc<Mutex<Lines>>);

struct Lines {
    port: Arc<dyn Port>,
    left: u32,
    stdout: Partial,
    stderr: Partial,
}

/// A line that has no end yet. Holds no more than a line may have; the rest of a longer one is dropped.
#[derive(Default)]
struct Partial(Vec<u8>);

#[derive(Clone, Copy)]
pub(crate) enum Pipe {
    Stdout,
    Stderr,
}

impl Output {
    pub(crate) fn new(port: Arc<dyn Port>) -> Output {
        Output(Arc::new(Mutex::new(Lines {
            port,
            left: limits::LOG_LINES,
            stdout: Partial::default(),
            stderr: Partial::default(),
        })))
    }

    /// A structured line, cut to its bounds.
    pub(crate) fn line(&self, line: LogLine) -> Result<(), Halt> {
        let fields =
            line.fields.into_iter().take(limits::LOG_FIELDS).map(|(name, value)| {
                (cut(name, limits::LOG_FIELD_NAME), cut(value, limits::LOG_FIELD_VALUE))
            });
        let line = LogLine {
            level: line.level,
            message: cut(line.message, limits::LOG_MESSAGE),
            fields: fields.collect(),
        };
        self.lines().pass(line)
    }

    pub(crate) fn stream(&self, pipe: Pipe) -> Box<dyn OutputStream> {
        Box::new(Stream { output: self.clone(), pipe })
    }

    /// Passes on what has no newline yet.
    pub(crate) fn finish(&self) -> Result<(), Halt> {
        let mut lines = self.lines();
        lines.end(Pipe::Stdout)?;
        lines.end(Pipe::Stderr)
    }

    fn write(&self, pipe: Pipe, bytes: &[u8]) -> Result<(), Halt> {
        let mut lines = self.lines();
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
            lines.partial(pipe).push(&rest[..at]);
            lines.end(pipe)?;
            rest = &rest[at + 1..];
        }
        lines.partial(pipe).push(rest);
        Ok(())
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lines {
    /// The last line that fits says that more was dropped.
    fn pass(&mut self, line: LogLine) -> Result<(), Halt> {
        let line = match self.left {
            0 => return Ok(()),
            1 => LogLine {
                level: LogLevel::Warn,
                message: format!(
                    "the module wrote more than {} lines; the rest of this callback's are dropped",
                    limits::LOG_LINES
                ),
                fields: Vec::new(),
            },
            _ => line,
        };
        self.left -= 1;
        self.port.log(line).map_err(Halt::Violation)
    }

    fn partial(&mut self, pipe: Pipe) -> &mut Partial {
        match pipe {
            Pipe::Stdout => &mut self.stdout,
            Pipe::Stderr => &mut self.stderr,
        }
    }

    fn end(&mut self, pipe: Pipe) -> Result<(), Halt> {
        let bytes = std::mem::take(&mut self.partial(pipe).0);
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_end();
        if text.is_empty() {
            return Ok(());
        }
        let level = match pipe {
            Pipe::Stdout => LogLevel::Info,
            Pipe::Stderr => LogLevel::Warn,
        };
        let message = cut(text.to_owned(), limits::LOG_MESSAGE);
        self.pass(LogLine { level, message, fields: Vec::new() })
    }
}

impl Partial {
    fn push(&mut self, bytes: &[u8]) {
        let room = limits::LOG_MESSAGE.saturating_sub(self.0.len());
        self.0.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

struct Stream {
    output: Output,
    pipe: Pipe,
}

#[async_trait::async_trait]
impl Pollable for Stream {
    async fn ready(&mut self) {}
}

impl OutputStream for Stream {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.output.write(self.pipe, &bytes).map_err(|halt| StreamError::Trap(halt.into()))
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(limits::LOG_MESSAGE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use holdfast_effects::{CallError, CallOutcome, CallReply, CallRequest, Violation};

    #[derive(Default)]
    struct Said(Mutex<Vec<(LogLevel, String)>>);

    #[async_trait::async_trait]
    impl Port for Said {
        async fn read(&self, _request: CallRequest) -> Result<CallReply, CallError> {
            unreachable!()
        }

        async fn perform(&self, _key: String, _request: CallRequest) -> Result<CallOutcome, CallError> {
            unreachable!()
        }

        fn recorded(&self, _key: &str) -> Result<Option<CallOutcome>, Violation> {
            Ok(None)
        }

        fn token(&self, _key: &str) -> Result<String, Violation> {
            Ok(String::new())
        }

        fn now(&self) -> Result<String, Violation> {
            Ok(String::new())
        }

        fn log(&self, line: LogLine) -> Result<(), Violation> {
            self.0.lock().unwrap().push((line.level, line.message));
            Ok(())
        }

        fn seed(&self) -> [u8; 32] {
            [0; 32]
        }
    }

    #[test]
    fn stdout_and_stderr_become_lines_of_their_own() {
        let said = Arc::new(Said::default());
        let output = Output::new(said.clone());
        output.write(Pipe::Stdout, b"one\ntw").unwrap();
        output.write(Pipe::Stderr, b"bad\r\n\n").unwrap();
        output.write(Pipe::Stdout, b"o\n\xff rest").unwrap();
        output.finish().unwrap();
        let text = |level, text: &str| (level, text.to_owned());
        let lines = [
            text(LogLevel::Info, "one"),
            text(LogLevel::Warn, "bad"),
            text(LogLevel::Info, "two"),
            text(LogLevel::Info, "\u{fffd} rest"),
        ];
        assert_eq!(*said.0.lock().unwrap(), lines);
    }

    #[test]
    fn a_line_without_end_is_kept_to_its_bound() {
        let said = Arc::new(Said::default());
        let output = Output::new(said.clone());
        for _ in 0..1000 {
            output.write(Pipe::Stdout, &[b'x'; 1000]).unwrap();
        }
        assert_eq!(output.lines().stdout.0.len(), limits::LOG_MESSAGE);
        output.finish().unwrap();
        assert_eq!(said.0.lock().unwrap()[0].1.len(), limits::LOG_MESSAGE);
    }
}
