//! An empty library that leads to another: `libcudart.so.13`, whose functions are in `libcuda.so.1`.
//!
//! Programs ask for functions of the version `libcudart.so.13`, and the loader of Linux warns on the terminal of each program whose
//! library does not declare it. Rust's linker scripts leave no room for a version, so a library of a few hundred bytes declares it
//! and needs the other, where the functions are found.

/// Constants of `elf.h`.
mod elf {
    pub(super) const HEADER: usize = 64;
    pub(super) const PROGRAM_HEADER: usize = 56;
    pub(super) const SYMBOL: usize = 24;
    pub(super) const LOAD: u32 = 1;
    pub(super) const DYNAMIC: u32 = 2;
    pub(super) const READ_WRITE: u32 = 6;
    /// Tags of dynamic entries.
    pub(super) const NULL: u64 = 0;
    pub(super) const NEEDED: u64 = 1;
    pub(super) const STRTAB: u64 = 5;
    pub(super) const SYMTAB: u64 = 6;
    pub(super) const STRSZ: u64 = 10;
    pub(super) const SYMENT: u64 = 11;
    pub(super) const SONAME: u64 = 14;
    pub(super) const VERSYM: u64 = 0x6fff_fff0;
    pub(super) const VERDEF: u64 = 0x6fff_fffc;
    pub(super) const VERDEFNUM: u64 = 0x6fff_fffd;
}

/// `e_machine` of this machine.
const MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };

/// Hash of a version's name (System V ABI, "Hash Table").
fn hash(name: &str) -> u32 {
    name.bytes().fold(0, |hash: u32, byte| {
        let hash = (hash << 4).wrapping_add(byte.into());
        (hash ^ (hash & 0xf000_0000) >> 24) & 0x0fff_ffff
    })
}

/// The library `name`, which declares a version of its own name and needs `target`.
pub(super) fn stub(name: &str, target: &str) -> Vec<u8> {
    // One segment, whose addresses are the offsets in the file.
    let mut image = vec![0; elf::HEADER + 2 * elf::PROGRAM_HEADER];
    let strings = image.len();
    image.extend(format!("\0{name}\0{target}\0").bytes());
    let (name_at, target_at) = (1, name.len() + 2);
    let strings_bytes = image.len() - strings;
    align(&mut image);
    let symbols = image.len();
    image.extend([0; elf::SYMBOL]); // the one that stands for none
    let version_of_symbols = image.len();
    image.extend([0; 8]);
    let versions = image.len();
    // The library itself, which is the first by definition, then the version; an auxiliary entry with the name follows each.
    for (flags, number, next) in [(1_u16, 1_u16, 28_u32), (0, 2, 0)] {
        for half in [1, flags, number, 1] {
            image.extend(half.to_le_bytes());
        }
        for word in [hash(name), 20, next, name_at, 0] {
            image.extend(word.to_le_bytes());
        }
    }
    align(&mut image);
    let dynamic = image.len();
    let entries = [
        (elf::NEEDED, target_at),
        (elf::SONAME, name_at as usize),
        (elf::STRTAB, strings),
        (elf::STRSZ, strings_bytes),
        (elf::SYMTAB, symbols),
        (elf::SYMENT, elf::SYMBOL),
        (elf::VERSYM, version_of_symbols),
        (elf::VERDEF, versions),
        (elf::VERDEFNUM, 2),
        (elf::NULL, 0),
    ];
    for (tag, value) in entries {
        image.extend(tag.to_le_bytes());
        image.extend((value as u64).to_le_bytes());
    }
    let bytes = image.len();

    // 64 bits, little-endian, a shared object; program headers follow, and there are no sections.
    let mut head = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0".to_vec();
    head.extend(MACHINE.to_le_bytes());
    head.extend(1_u32.to_le_bytes());
    for address in [0, elf::HEADER as u64, 0] {
        head.extend(address.to_le_bytes());
    }
    head.extend([0; 4]);
    for half in [elf::HEADER as u16, elf::PROGRAM_HEADER as u16, 2, 0, 0, 0] {
        head.extend(half.to_le_bytes());
    }
    for (kind, start, end, alignment) in [(elf::LOAD, 0, bytes, 0x10000), (elf::DYNAMIC, dynamic, bytes, 8)] {
        head.extend(kind.to_le_bytes());
        head.extend(elf::READ_WRITE.to_le_bytes());
        for value in [start, start, start, end - start, end - start, alignment] {
            head.extend((value as u64).to_le_bytes());
        }
    }
    image[..head.len()].copy_from_slice(&head);
    image
}

/// Fills up to a multiple of 8.
fn align(image: &mut Vec<u8>) {
    image.resize(image.len().next_multiple_of(8), 0);
}
