//! What is tried in the box: each client at a granted host, at one without a grant, and with the image's own roots alone.

/// A Python program in the place of an agent; what it found is one line of JSON.
pub(super) const PROGRAM: &str = r#"
import json, os, pathlib, platform, subprocess
out = {'python': platform.python_version()}
urllib = "import urllib.request, sys; print(urllib.request.urlopen(sys.argv[1]).read().decode())"
requests = "import requests, sys; it = requests.get(sys.argv[1]); it.raise_for_status(); print(it.text)"
httpx = "import httpx, sys; it = httpx.get(sys.argv[1]); it.raise_for_status(); print(it.text)"
node = "fetch(process.argv[1]).then(async it => { const text = await it.text(); if (!it.ok) throw new Error(text); console.log(text) })"

def run(*words, cwd='/tmp', **more):
    env = dict(os.environ, GIT_TERMINAL_PROMPT='0', **more)
    ran = subprocess.run(words, capture_output=True, text=True, timeout=200, cwd=cwd, env=env, stdin=subprocess.DEVNULL)
    return [ran.returncode, ran.stdout[-30000:], ran.stderr[-30000:]]

def tries(when, files, packages, git, **more):
    place = pathlib.Path('/tmp') / when
    place.mkdir()
    crate = place / 'crate'
    (crate / 'src').mkdir(parents=True)
    (crate / 'src/lib.rs').write_text('pub use greeting::WORD;\n')
    (crate / 'Cargo.toml').write_text('[package]\nname = "it"\nversion = "0.1.0"\nedition = "2021"\n[dependencies]\ngreeting = "1"\n')
    (crate / '.cargo').mkdir()
    (crate / '.cargo/config.toml').write_text(
        f'[source.crates-io]\nreplace-with = "here"\n[source.here]\nregistry = "sparse+https://{packages}/cargo/"\n')
    here, url = str(place), f'https://{files}/hello'
    for name, words in {
        'curl': ['curl', '-sS', url],
        'wget': ['wget', '-nv', '-O-', '--tries=1', url],
        'urllib': ['/usr/bin/python3', '-c', urllib, url],
        'requests': ['/usr/bin/python3', '-c', requests, url],
        'httpx': ['/usr/bin/python3', '-c', httpx, url],
        'node': ['node', '-e', node, url],
        'git': ['git', 'clone', f'https://{git}/it.git', here + '/cloned'],
        'pip': ['/usr/bin/python3', '-m', 'pip', '-vv', 'install', '--no-cache-dir', '--no-deps', '--retries', '0',
                '--disable-pip-version-check', '--target', here + '/pip', '--index-url', f'https://{packages}/simple', 'greeting'],
        'npm': ['node', '/opt/npm/bin/npm-cli.js', 'install', '--prefix', here + '/npm', '--cache', here + '/cache', '--no-audit',
                '--no-fund', '--fetch-retries=0', f'--registry=https://{packages}/npm/', 'greeting'],
    }.items():
        out[f'{when} {name}'] = run(*words, **more)
    out[f'{when} cargo'] = run('cargo', 'check', cwd=str(crate), CARGO_HOME=here + '/cargo', **more)

tries('granted', 'files.test', 'packages.test', 'git.test')
tries('elsewhere', 'elsewhere.test', 'elsewhere.test', 'elsewhere.test')
bundle = os.environ['SSL_CERT_FILE']
roots = {name: '/etc/ssl/certs/ca-certificates.crt' for name, value in os.environ.items() if value == bundle}
pathlib.Path('/tmp/wgetrc').touch()
tries('distrusting', 'files.test', 'packages.test', 'git.test', WGETRC='/tmp/wgetrc', NODE_EXTRA_CA_CERTS='', **roots)

def git(name, *words):
    out['git ' + name] = run('git', '-c', 'user.name=a', '-c', 'user.email=a@box.test', *words)
git('clone', 'clone', 'https://git.test/it.git', 'first')
with open('/tmp/first/large', 'wb') as large:
    large.write(os.urandom(50 << 20))
git('add', '-C', 'first', 'add', 'large')
git('commit', '-C', 'first', 'commit', '--quiet', '-m', 'from the box')
git('push', '-C', 'first', 'push', 'origin', 'HEAD:main')
git('clone again', 'clone', 'https://git.test/it.git', 'second')
out['git compare'] = run('cmp', 'first/large', 'second/large')
print(json.dumps(out))
"#;
