//! The stand-in as a program, for the demo: listens until it is ended.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Parser;
use standin::{Options, Real, StandIn};

/// Plays the model API on loopback.
#[derive(Parser)]
struct Arguments {
    /// Where to listen; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Where the certificate goes that a client has to trust.
    #[arg(long)]
    ca_out: PathBuf,
    /// A credential to take for real: `sk-…` is an API key, `ACCOUNT=TOKEN` a login at ChatGPT, all else (and `sk-ant-oat…`)
    /// a login at Anthropic. May be repeated.
    #[arg(long = "key")]
    keys: Vec<String>,
    /// A host name for the certificate, besides the provider's own. May be repeated.
    #[arg(long = "name")]
    names: Vec<String>,
    /// Answer upgrades to a WebSocket with 426.
    #[arg(long)]
    no_websocket: bool,
    /// Speak plain HTTP.
    #[arg(long)]
    plain: bool,
}

#[expect(clippy::print_stdout, reason = "the address is this program's output")]
fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mut options = Options {
        listen: arguments.listen,
        plain: arguments.plain,
        websocket: !arguments.no_websocket,
        ..Options::default()
    };
    options.real = arguments.keys.iter().map(|key| Real::from_text(key)).collect();
    options.names.extend(arguments.names);
    let standin = StandIn::start(options)?;
    standin.write_ca(&arguments.ca_out)?;
    println!("{}", standin.address());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("wait for the end")?;
    runtime.block_on(tokio::signal::ctrl_c()).context("wait for the end")?;
    standin.stop();
    Ok(())
}
