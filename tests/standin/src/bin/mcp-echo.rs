//! The MCP server for tests as a program: on its standard streams, or at an address.

use std::fs::OpenOptions;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;
use standin::Echo;

/// One tool, `echo`, that gives back its text.
#[derive(Parser)]
struct Arguments {
    /// Speak HTTP here, and print the address; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS")]
    http: Option<SocketAddr>,
    /// Every message that comes goes to the end of this file, a line for each.
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

#[expect(clippy::print_stdout, reason = "the address is this program's output")]
fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let log = arguments.log.map(|path| {
        let opened = OpenOptions::new().create(true).append(true).open(&path);
        opened.with_context(|| format!("open {}", path.display()))
    });
    let echo = Echo::new(log.transpose()?);
    let Some(address) = arguments.http else {
        return echo.by_lines(std::io::stdin().lock(), std::io::stdout().lock());
    };
    let listener = TcpListener::bind(address).with_context(|| format!("listen on {address}"))?;
    println!("{}", listener.local_addr().context("read the address")?);
    echo.by_http(&listener)
}
