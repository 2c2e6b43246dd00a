//! The static boxd: it loads nothing from the image it runs in.

use anyhow::{Context, Result, ensure};
use harness::{Case, Need, Tools, case};

pub(crate) const CASES: &[Case] = &[case("elf::boxd_is_static_and_small", is_static_and_small).needs(&[Need::Boxd])];

fn is_static_and_small() -> Result<()> {
    let file = std::fs::read(Tools::boxd()?).context("read boxd")?;
    ensure!(file.len() <= 3 * 1024 * 1024, "boxd has {} bytes", file.len());
    ensure!(file.get(..5) == Some(b"\x7fELF\x02"), "boxd is no 64-bit ELF");
    ensure!(number(&file, 16, 2)? == ET_DYN, "boxd is not position-independent");
    let (table, size, count) = (number(&file, 32, 8)?, number(&file, 54, 2)?, number(&file, 56, 2)?);
    ensure!(count >= 2, "boxd has {count} program headers");
    let mut pie = false;
    for index in 0..count {
        let header = table + index * size;
        let kind = number(&file, header, 4)?;
        ensure!(kind != PT_INTERP, "boxd has an interpreter");
        if kind == PT_DYNAMIC {
            pie = dynamic(&file, number(&file, header + 8, 8)?, number(&file, header + 32, 8)?)?;
        }
    }
    ensure!(pie, "boxd is not marked as a PIE");
    ensure!(!harness::secrets::in_bytes(&file, &["libnss_"]), "boxd knows of libnss_");
    Ok(())
}

/// Walks the dynamic section: nothing needed. Returns whether it is marked as a PIE.
fn dynamic(file: &[u8], offset: u64, size: u64) -> Result<bool> {
    let mut pie = false;
    for entry in (offset..offset + size).step_by(16) {
        let (tag, value) = (number(file, entry, 8)?, number(file, entry + 8, 8)?);
        ensure!(tag != DT_NEEDED, "boxd needs a shared library");
        pie |= tag == DT_FLAGS_1 && value & DF_1_PIE != 0;
    }
    Ok(pie)
}

fn number(file: &[u8], at: u64, bytes: usize) -> Result<u64> {
    let at = usize::try_from(at).context("read an offset")?;
    let slice = file.get(at..at + bytes).context("read within the file")?;
    Ok(slice.iter().rev().fold(0, |sum, byte| sum << 8 | u64::from(*byte)))
}

const ET_DYN: u64 = 3;
const PT_DYNAMIC: u64 = 2;
const PT_INTERP: u64 = 3;
const DT_NEEDED: u64 = 1;
const DT_FLAGS_1: u64 = 0x6fff_fffb;
const DF_1_PIE: u64 = 0x0800_0000;
