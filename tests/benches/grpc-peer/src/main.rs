//! A provider as others run it: a child process that is called by gRPC over a unix socket.
//!
//! `serve SOCKET` is the provider; it ends with its standard input. `call SOCKET` is the caller: for each line
//! `MILLISECONDS THREADS` it calls for that long and answers one line of JSON. The messages are those of the contract's
//! `poll`, and so is the work; what a provider reads from its service is answered in place, which favours this side.

mod call;
mod message;
mod serve;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", socket] => serve::run(socket),
        ["call", socket] => call::run(socket),
        _ => Err("usage: serve SOCKET | call SOCKET".into()),
    }
}
