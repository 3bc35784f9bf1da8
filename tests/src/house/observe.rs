//! What the daemon shows on its second listener: `/metrics`, `/healthz`, `/readyz`.

use super::House;
use anyhow::{Context, Result, ensure};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(20);

impl House {
    /// Head and body of the answer to a GET on the listener that the daemon's latest start has logged. Blocks.
    pub fn observe(&self, path: &str) -> Result<(String, String)> {
        let log = self.log();
        let line = log.lines().rev().find(|line| line.contains("metrics and health"));
        let address =
            line.and_then(|line| line.split("address=").nth(1)).context("no listener was logged")?;
        let address = address.split_whitespace().next().context("an address")?;
        let mut stream = TcpStream::connect(address).with_context(|| format!("connecting to {address}"))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("an answer without a head")?;
        ensure!(
            head.starts_with("HTTP/1.1 200 "),
            "{path} answered {}",
            head.lines().next().unwrap_or_default()
        );
        Ok((head.to_owned(), body.to_owned()))
    }
}
