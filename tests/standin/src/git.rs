//! Git: a real server of repositories, `git http-backend` (git-http-backend(1)), which asks for a user name and a password.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::frame::Head;

/// Repositories to serve instead of models, and the one credential that opens them.
#[derive(Clone, Debug)]
pub struct Repositories {
    /// The folder of bare repositories.
    pub root: PathBuf,
    pub username: String,
    pub password: String,
}

/// An answer of the server: status, headers, body.
pub(crate) type Answer = (u16, Vec<(String, String)>, Vec<u8>);

impl Repositories {
    /// Answers a request: 401 without exactly the right credential, else what git says.
    pub(crate) async fn answer(&self, head: &Head, body: &[u8]) -> io::Result<Answer> {
        let given: Vec<&str> = head
            .headers
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case("authorization"))
            .map(|(_, value)| value.as_str())
            .collect();
        let wanted = format!("Basic {}", STANDARD.encode(format!("{}:{}", self.username, self.password)));
        if given != [wanted.as_str()] {
            let challenge = ("www-authenticate".to_owned(), "Basic realm=\"stand-in\"".to_owned());
            return Ok((401, vec![challenge], b"stand-in: no real credential\n".to_vec()));
        }
        let command = self.command(head, body.len());
        let body = body.to_vec();
        let ran = tokio::task::spawn_blocking(move || run(command, &body));
        ran.await.map_err(io::Error::other)?
    }

    fn command(&self, head: &Head, length: usize) -> Command {
        let (path, query) = head.path.split_once('?').unwrap_or((&head.path, ""));
        let mut command = Command::new("git");
        command.arg("http-backend").env("GIT_PROJECT_ROOT", &self.root).env("GIT_HTTP_EXPORT_ALL", "1");
        command.env("REQUEST_METHOD", &head.method).env("PATH_INFO", path).env("QUERY_STRING", query);
        command.env("REMOTE_USER", &self.username).env("REMOTE_ADDR", "127.0.0.1");
        command.env("CONTENT_LENGTH", length.to_string());
        for (header, variable) in [
            ("content-type", "CONTENT_TYPE"),
            ("content-encoding", "HTTP_CONTENT_ENCODING"),
            ("git-protocol", "GIT_PROTOCOL"),
        ] {
            if let Some(value) = head.header(header) {
                command.env(variable, value);
            }
        }
        command
    }
}

fn run(mut command: Command, body: &[u8]) -> io::Result<Answer> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut input = child.stdin.take().ok_or(io::ErrorKind::BrokenPipe)?;
    let output = std::thread::scope(|scope| {
        // A backend that has read enough closes its end.
        scope.spawn(move || drop(input.write_all(body)));
        child.wait_with_output()
    })?;
    understood(&output.stdout).ok_or_else(|| io::Error::other("git http-backend answered no CGI"))
}

/// CGI (RFC 3875 §6): header lines, an empty line, the body.
fn understood(output: &[u8]) -> Option<Answer> {
    let end = output.windows(4).position(|window| window == b"\r\n\r\n")?;
    let mut status = 200;
    let mut headers = Vec::new();
    for line in std::str::from_utf8(&output[..end]).ok()?.split("\r\n") {
        let (name, value) = line.split_once(':')?;
        if name.eq_ignore_ascii_case("status") {
            status = value.trim().split(' ').next()?.parse().ok()?;
        } else {
            headers.push((name.to_owned(), value.trim().to_owned()));
        }
    }
    Some((status, headers, output[end + 4..].to_vec()))
}

#[cfg(test)]
mod tests {
    use super::understood;

    #[test]
    fn an_answer_of_cgi_is_understood() {
        let (status, headers, body) =
            understood(b"Status: 404 Not Found\r\nContent-Type: text/plain\r\n\r\nno\r\n\r\n").expect("an answer");
        assert_eq!((status, headers.len(), body.as_slice()), (404, 1, &b"no\r\n\r\n"[..]));
        assert_eq!(understood(b"Expires: 0\r\n\r\n").map(|answer| answer.0), Some(200));
        assert!(understood(b"nothing").is_none());
    }
}
