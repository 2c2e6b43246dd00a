//! A package of each kind, and the pages of the registries that have it.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use harness::process;
use standin::{Fault, Rule};
use tempfile::TempDir;

/// Builds a wheel, an npm package and a crate, each named `greeting`.
pub(super) fn build() -> Result<TempDir> {
    let folder = tempfile::Builder::new().prefix("packages-").tempdir().context("make the packages' folder")?;
    let mut python = Command::new("python3");
    python.args(["-c", BUILD]).arg(folder.path());
    process::run(python, None, Duration::from_secs(60))?.expect_code(0)?;
    Ok(folder)
}

/// The first that fits is taken, so the longer paths come first.
pub(super) fn pages(folder: &Path) -> Result<Vec<Rule>> {
    let file = |name: &str| std::fs::read(folder.join(name)).with_context(|| format!("read {name}"));
    let page = |path: &str, kind: &str, body: Vec<u8>| {
        let headers = vec![("content-type".to_owned(), kind.to_owned())];
        Rule::new(path, Fault::Status { status: 200, headers, body })
    };
    Ok(vec![
        page("/hello", "text/plain", b"hello from the files\n".to_vec()),
        page("/simple/greeting/", "text/html", LIST.into()),
        page(&format!("/wheels/{WHEEL}"), "application/octet-stream", file(WHEEL)?),
        page("/npm/greeting/-/greeting-1.0.0.tgz", "application/octet-stream", file("greeting-1.0.0.tgz")?),
        page("/npm/greeting", "application/json", file("npm.json")?),
        page("/cargo/config.json", "application/json", b"{\"dl\":\"https://packages.test/cargo/dl\"}".to_vec()),
        page("/cargo/gr/ee/greeting", "text/plain", file("index")?),
        page("/cargo/dl/greeting/1.0.0/download", "application/octet-stream", file("greeting-1.0.0.crate")?),
        Rule::status("", 404),
    ])
}

const WHEEL: &str = "greeting-1.0-py3-none-any.whl";
const LIST: &str = "<!DOCTYPE html><html><body><a href=\"/wheels/greeting-1.0-py3-none-any.whl\">greeting-1.0-py3-none-any.whl</a></body></html>";
const BUILD: &str = r#"
import base64, hashlib, io, json, pathlib, sys, tarfile, zipfile
out = pathlib.Path(sys.argv[1])
def tar(name, files):
    with tarfile.open(out / name, 'w:gz') as made:
        for path, text in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(text)
            made.addfile(member, io.BytesIO(text.encode()))
    return (out / name).read_bytes()
info = 'greeting-1.0.dist-info/'
with zipfile.ZipFile(out / 'greeting-1.0-py3-none-any.whl', 'w') as wheel:
    wheel.writestr('greeting.py', "WORD = 'from pip'\n")
    wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\nName: greeting\nVersion: 1.0\n')
    wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\nGenerator: it\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
    wheel.writestr(info + 'RECORD', f'greeting.py,,\n{info}METADATA,,\n{info}WHEEL,,\n{info}RECORD,,\n')
manifest = {'name': 'greeting', 'version': '1.0.0', 'main': 'index.js'}
packed = tar('greeting-1.0.0.tgz', {'package/package.json': json.dumps(manifest), 'package/index.js': "module.exports = 'from npm'\n"})
dist = {'tarball': 'https://packages.test/npm/greeting/-/greeting-1.0.0.tgz',
        'integrity': 'sha512-' + base64.b64encode(hashlib.sha512(packed).digest()).decode()}
(out / 'npm.json').write_text(json.dumps({'name': 'greeting', 'dist-tags': {'latest': '1.0.0'}, 'versions': {'1.0.0': dict(manifest, dist=dist)}}))
crate = tar('greeting-1.0.0.crate', {
    'greeting-1.0.0/Cargo.toml': '[package]\nname = "greeting"\nversion = "1.0.0"\nedition = "2021"\n',
    'greeting-1.0.0/src/lib.rs': 'pub const WORD: &str = "from cargo";\n'})
(out / 'index').write_text(json.dumps({'name': 'greeting', 'vers': '1.0.0', 'deps': [], 'cksum': hashlib.sha256(crate).hexdigest(),
    'features': {}, 'yanked': False}) + '\n')
"#;
