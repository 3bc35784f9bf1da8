//! What a guest logs: scanned, made printable, bounded in count and size.

use crate::failure::violation;
use crate::message::{LogLevel, LogLine, Violation};
use crate::session::Room;
use crate::shared::lock;
use crate::text;
use holdfast_custody::Place;

const MAX_LINES: usize = 256;
/// Bytes of message, names and values of one line.
const MAX_LINE: usize = 4096;
const MAX_FIELDS: usize = 32;
const MAX_NAME: usize = 64;
/// A guest that goes on logging after this many dropped lines is stopped.
const MAX_DROPPED: u64 = 1_000_000;

#[derive(Default)]
pub(crate) struct Log {
    lines: Vec<LogLine>,
    dropped: u64,
}

impl Log {
    pub fn lines(&self) -> Vec<LogLine> {
        let mut lines = self.lines.clone();
        if self.dropped > 0 {
            lines.push(LogLine {
                level: LogLevel::Warn,
                message: format!("{} further lines of this callback were dropped", self.dropped),
                fields: Vec::new(),
            });
        }
        lines
    }
}

impl Room {
    pub(crate) fn write_log(&self, line: LogLine) -> Result<(), Violation> {
        {
            let mut log = lock(&self.log);
            if log.lines.len() >= MAX_LINES {
                log.dropped += 1;
                if log.dropped > MAX_DROPPED {
                    return Err(violation("LogFlood", "the callback was stopped: it does nothing but log"));
                }
                return Ok(());
            }
        }
        let texts = line.fields.iter().flat_map(|(name, value)| [name, value]);
        for text in std::iter::once(&line.message).chain(texts) {
            self.scan(Place::Log, text)?;
        }
        let line = bounded(line);
        let texts = line.fields.iter().flat_map(|(name, value)| [name, value]);
        for text in std::iter::once(&line.message).chain(texts) {
            self.scan(Place::Log, text)?;
        }
        lock(&self.log).lines.push(line);
        Ok(())
    }
}

fn bounded(line: LogLine) -> LogLine {
    let message = text::bounded(&line.message, MAX_LINE);
    let mut room = MAX_LINE - message.len();
    let mut fields = Vec::new();
    for (name, value) in line.fields.into_iter().take(MAX_FIELDS) {
        let name = text::bounded(&name, MAX_NAME.min(room));
        room -= name.len();
        let value = text::bounded(&value, room);
        room -= value.len();
        if name.is_empty() {
            break;
        }
        fields.push((name, value));
    }
    LogLine { level: line.level, message, fields }
}
