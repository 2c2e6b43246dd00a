//! A plain CONNECT proxy that leads every target to one address.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};

use anyhow::{Context, Result};

/// Starts one that lives as long as the test program.
pub(super) fn start(to: SocketAddr) -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listen for a bare agent")?;
    let address = listener.local_addr().context("read the proxy's address")?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || lead(stream, to));
        }
    });
    Ok(address)
}

fn lead(mut client: TcpStream, to: SocketAddr) -> Option<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && head.len() < 64 * 1024 {
        client.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    if !head.starts_with(b"CONNECT ") {
        return client
            .write_all(b"HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            .ok();
    }
    let mut server = connect(to)?;
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").ok()?;
    let (mut up_from, mut up_to) = (client.try_clone().ok()?, server.try_clone().ok()?);
    std::thread::spawn(move || {
        let _broken_is_the_end = std::io::copy(&mut up_from, &mut up_to);
        let _gone = up_to.shutdown(Shutdown::Write);
    });
    let _broken_is_the_end = std::io::copy(&mut server, &mut client);
    client.shutdown(Shutdown::Both).ok()
}

#[expect(clippy::disallowed_methods, reason = "a test's own connection on loopback")]
fn connect(to: SocketAddr) -> Option<TcpStream> {
    TcpStream::connect(to).ok()
}
