//! Images of modules: PTX in each of the forms in which programs hand it over.

use std::borrow::Cow;
use std::ffi::{CStr, c_void};
use std::io::Read;

use crate::abi::{Code, Outcome};
use crate::options::Compute;
use crate::tell::say;

/// First word of a fat binary, and of the structure by which compiled programs point to one.
const FATBIN: [u8; 4] = 0xba55_ed50_u32.to_le_bytes();
const WRAPPER: [u8; 4] = 0x4662_43b1_u32.to_le_bytes();
const ELF: [u8; 4] = *b"\x7fELF";

/// First bytes of a linked image, which only this library loads. The maximum number of registers per thread follows, if the program set
/// one, then the texts, each with a zero byte before and behind it, and an empty one.
pub(crate) const LINKED: &[u8; 8] = b"cuda-sim";

/// The functions of `libcudadevrt.a` that linked programs use. They are weak: a program's own come first.
pub(crate) const DEVICE_RUNTIME: &str = include_str!("device_runtime.ptx");

/// Remedy for a program of machine code alone, which the simulator does not run.
const NO_PTX: &str = "the program has machine code for a GPU and no PTX that fits, and the simulator runs PTX. Keep it: `nvcc -gencode \
    arch=compute_90,code=compute_90`, `CUPY_COMPILE_WITH_PTX=1` for CuPy, or a `TRITON_PTXAS_PATH` (`TRITON_PTXAS_BLACKWELL_PATH` since 3.9) that copies its input for Triton";

/// Machine code alone: says how to keep PTX.
fn without_ptx() -> Code {
    say(NO_PTX);
    Code::NO_BINARY_FOR_GPU
}

/// `__fatBinC_Wrapper_t` of `fatbinary_section.h`.
#[repr(C)]
struct Wrapper {
    magic: [u8; 4],
    version: u32,
    fatbin: *const c_void,
    /// With version 2: fat binaries that are linked into one module; a null pointer ends the list.
    linked: *const *const c_void,
}

/// Bytes of the header of a fat binary: first word, version, bytes of the header, bytes of the entries.
const HEADER: usize = 16;

/// The bytes of an image, as far as its first ones tell: all of a fat binary or text, the beginning of machine code.
///
/// # Safety
/// `image` is an image as `cuModuleLoadData` takes it, but no [`Wrapper`].
unsafe fn bytes_of<'t>(image: *const u8) -> &'t [u8] {
    // SAFETY: every image has four bytes, a fat binary a header with the number of its bytes, and texts end in a zero byte.
    unsafe {
        match image.cast::<[u8; 4]>().read() {
            ELF => std::slice::from_raw_parts(image, ELF.len()),
            FATBIN => {
                let header = std::slice::from_raw_parts(image, HEADER);
                let bytes = number(header, 6, 2).zip(number(header, 8, 8)).map_or(0, |(header, rest)| header + rest);
                std::slice::from_raw_parts(image, bytes)
            }
            _ => {
                let mut bytes = CStr::from_ptr(image.cast()).count_bytes();
                if std::slice::from_raw_parts(image, bytes).starts_with(LINKED) {
                    while image.add(bytes + 1).read() != 0 {
                        bytes += 1 + CStr::from_ptr(image.add(bytes + 1).cast()).count_bytes();
                    }
                }
                std::slice::from_raw_parts(image, bytes)
            }
        }
    }
}

/// The PTX of an image in memory, one text or several that belong together.
///
/// # Safety
/// `image` is null or an image as `cuModuleLoadData` takes it.
pub(crate) unsafe fn ptx_at<'t>(image: *const c_void, compute: Compute) -> Outcome<Vec<Cow<'t, str>>> {
    if image.is_null() {
        return Err(Code::INVALID_VALUE);
    }
    // SAFETY: every image has four bytes, and a wrapper points to fat binaries.
    unsafe {
        if image.cast::<[u8; 4]>().read() != WRAPPER {
            return ptx_in(bytes_of(image.cast()), compute);
        }
        let wrapper = image.cast::<Wrapper>().read();
        if wrapper.version < 2 || wrapper.linked.is_null() {
            return ptx_in(bytes_of(wrapper.fatbin.cast()), compute);
        }
        let fatbins = (0..).map(|at| wrapper.linked.add(at).read()).take_while(|fatbin| !fatbin.is_null());
        let texts = fatbins.filter_map(|fatbin| best(bytes_of(fatbin.cast()), compute).transpose());
        let mut texts: Vec<_> = texts.map(|text| text.map(Cow::Owned)).collect::<Outcome<_>>()?;
        if texts.is_empty() {
            return Err(without_ptx());
        }
        // `libcudadevrt` is always among them, as machine code.
        texts.push(Cow::Borrowed(DEVICE_RUNTIME));
        Ok(texts)
    }
}

/// The PTX of an image of known length.
pub(crate) fn ptx_in(image: &[u8], compute: Compute) -> Outcome<Vec<Cow<'_, str>>> {
    if image.starts_with(&ELF) {
        return Err(without_ptx());
    }
    if image.starts_with(&FATBIN) {
        return Ok(vec![Cow::Owned(best(image, compute)?.ok_or_else(without_ptx)?)]);
    }
    let texts = match image.strip_prefix(LINKED) {
        Some(texts) => texts.split(|byte| *byte == 0).skip(1).filter(|text| !text.is_empty()).collect(),
        None => vec![image.split(|byte| *byte == 0).next().unwrap_or_default()],
    };
    texts.into_iter().map(|text| Ok(Cow::Borrowed(std::str::from_utf8(text).map_err(|_| Code::INVALID_PTX)?))).collect()
}

/// The maximum number of registers per thread of a linked image, if there is one.
///
/// # Safety
/// As for [`ptx_at`].
pub(crate) unsafe fn max_registers_at(image: *const c_void) -> Option<u32> {
    if image.is_null() {
        return None;
    }
    // SAFETY: text ends in a zero byte, and all else has one in its first words.
    let head = unsafe { CStr::from_ptr(image.cast()) }.to_bytes();
    std::str::from_utf8(head.strip_prefix(LINKED)?).ok()?.parse().ok()
}

/// An entry of a fat binary.
struct Entry<'f> {
    kind: u64,
    /// 90 of `sm_90`.
    architecture: u64,
    flags: u64,
    payload: &'f [u8],
    /// Bytes of a compressed payload, which is followed by padding.
    compressed: usize,
    /// Bytes once decompressed.
    bytes: usize,
}

/// [`Entry::kind`] of PTX; 2 is machine code.
const PTX: u64 = 1;
/// [`Entry::flags`]: how the payload is compressed, and the features beyond a plain `compute_90`.
const LZ4: u64 = 1 << 13;
const ZSTD: u64 = 1 << 15;
const ARCHITECTURE_SPECIFIC: u64 = 1 << 20;
const FAMILY_SPECIFIC: u64 = 1 << 21;

/// The number of `bytes` bytes at an offset.
fn number(data: &[u8], at: usize, bytes: usize) -> Option<usize> {
    let mut number = [0; 8];
    number[..bytes].copy_from_slice(data.get(at..at.checked_add(bytes)?)?);
    usize::try_from(u64::from_le_bytes(number)).ok()
}

impl<'f> Entry<'f> {
    /// The first entry of `entries`, and those after it.
    fn first(entries: &'f [u8]) -> Option<(Self, &'f [u8])> {
        let field = |at, bytes| number(entries, at, bytes);
        let (header, payload) = (field(4, 4)?, field(8, 8)?);
        let end = header.checked_add(payload)?;
        let flags = field(40, 8)? as u64;
        // The length is there if it is needed.
        let bytes = if flags & (LZ4 | ZSTD) != 0 { field(56, 8)? } else { 0 };
        let entry = Self {
            kind: field(0, 2)? as u64,
            architecture: field(28, 4)? as u64,
            flags,
            payload: entries.get(header..end)?,
            compressed: field(16, 4)?,
            bytes,
        };
        Some((entry, &entries[end.max(1)..]))
    }

    /// How well the entry fits a device, if it runs there at all: the higher the better.
    fn fit(&self, compute: Compute) -> Option<(u64, u64)> {
        let device = u64::from(compute.major) * 10 + u64::from(compute.minor);
        let specific = self.flags & (ARCHITECTURE_SPECIFIC | FAMILY_SPECIFIC);
        let runs = match specific {
            0 => self.architecture <= device,
            FAMILY_SPECIFIC => self.architecture <= device && self.architecture / 10 == device / 10,
            _ => self.architecture == device,
        };
        (runs && self.kind == PTX).then_some((self.architecture, specific))
    }

    /// The payload, decompressed.
    fn content(&self) -> Option<Vec<u8>> {
        if self.flags & (LZ4 | ZSTD) == 0 {
            return Some(self.payload.to_vec());
        }
        let compressed = self.payload.get(..self.compressed)?;
        if self.flags & LZ4 != 0 {
            return lz4_flex::block::decompress(compressed, self.bytes).ok();
        }
        let mut content = Vec::new();
        let decoder = ruzstd::decoding::StreamingDecoder::new(compressed).ok()?;
        // A frame that grows beyond what its entry says is not one of a compiler.
        decoder.take(self.bytes as u64 + 1).read_to_end(&mut content).ok()?;
        (content.len() <= self.bytes).then_some(content)
    }
}

/// The PTX of a fat binary that fits a device best, if any does: the highest architecture that runs there, with its features before
/// without.
fn best(fatbin: &[u8], compute: Compute) -> Outcome<Option<String>> {
    let header = number(fatbin, 6, 2).ok_or(Code::INVALID_VALUE)?;
    let mut rest = fatbin.get(header..).ok_or(Code::INVALID_VALUE)?;
    let mut best: Option<((u64, u64), Entry<'_>)> = None;
    while !rest.is_empty() {
        let (entry, after) = Entry::first(rest).ok_or(Code::INVALID_VALUE)?;
        if let Some(fit) = entry.fit(compute)
            && best.as_ref().is_none_or(|(known, _)| fit > *known)
        {
            best = Some((fit, entry));
        }
        rest = after;
    }
    let Some((_, entry)) = best else { return Ok(None) };
    let mut content = entry.content().ok_or(Code::INVALID_VALUE)?;
    content.truncate(content.iter().position(|byte| *byte == 0).unwrap_or(content.len()));
    String::from_utf8(content).map(Some).map_err(|_| Code::INVALID_PTX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = ".version 8.0 // .version 8.0 .version 8.0\n";
    const DEVICE: Compute = Compute { major: 9, minor: 0 };

    /// A fat binary of entries: kind, architecture, flags, payload as stored, bytes once decompressed.
    fn fatbin(entries: &[(u16, u32, u64, &[u8], usize)]) -> Vec<u8> {
        let mut all = Vec::new();
        for (kind, architecture, flags, stored, bytes) in entries {
            let payload = stored.len().next_multiple_of(8);
            all.extend(kind.to_le_bytes());
            all.extend([1, 1]);
            all.extend(64_u32.to_le_bytes());
            all.extend((payload as u64).to_le_bytes());
            all.extend((stored.len() as u32).to_le_bytes());
            all.extend([0; 8]);
            all.extend(architecture.to_le_bytes());
            all.extend([0; 8]);
            all.extend(flags.to_le_bytes());
            all.extend([0; 8]);
            all.extend((*bytes as u64).to_le_bytes());
            all.extend(*stored);
            all.resize(all.len() + payload - stored.len(), 0);
        }
        let mut whole = FATBIN.to_vec();
        whole.extend([1, 0, HEADER as u8, 0]);
        whole.extend((all.len() as u64).to_le_bytes());
        whole.extend(all);
        whole
    }

    fn found(entries: &[(u16, u32, u64, &[u8], usize)]) -> Outcome<String> {
        ptx_in(&fatbin(entries), DEVICE).map(|texts| texts.concat())
    }

    #[test]
    fn the_entry_that_fits_best_is_chosen() {
        let entry = |architecture, flags, text: &'static str| (1, architecture, flags, text.as_bytes(), 0);
        let all = [
            entry(75, 0, "75"),
            entry(90, 0, "90"),
            entry(90, ARCHITECTURE_SPECIFIC, "90a"),
            entry(100, 0, "100"),
            entry(89, ARCHITECTURE_SPECIFIC, "89a"),
        ];
        assert_eq!(found(&all).unwrap(), "90a");
        assert_eq!(found(&all[..2]).unwrap(), "90");
        assert_eq!(found(&[all[3], all[0], all[4]]).unwrap(), "75");
        let machine_code = (2, 90, 0, b"\x7fELF".as_slice(), 0);
        assert_eq!(found(&[machine_code, all[3]]), Err(Code::NO_BINARY_FOR_GPU));
        assert_eq!(found(&[machine_code, all[1]]).unwrap(), "90");
    }

    #[test]
    fn lengths_that_leave_the_image_are_refused() {
        let whole = fatbin(&[(1, 90, 0, TEXT.as_bytes(), 0)]);
        assert_eq!(ptx_in(&whole, DEVICE).unwrap(), [TEXT]);
        for bytes in 4..whole.len() - 1 {
            assert!(ptx_in(&whole[..bytes], DEVICE).is_err(), "{bytes}");
        }
    }

    #[test]
    fn a_linked_image_in_memory_has_all_its_texts() {
        for (image, texts, registers) in
            [(&b"cuda-sim\0\0"[..], &[][..], None), (b"cuda-sim24\0one\0two\0\0", &["one", "two"], Some(24))]
        {
            let image = image.as_ptr().cast();
            // SAFETY: an image that ends as linked ones do.
            let (found, bound) = unsafe { (ptx_at(image, DEVICE), max_registers_at(image)) };
            assert_eq!(found.unwrap(), texts);
            assert_eq!(bound, registers);
        }
    }

    #[test]
    fn what_is_no_compressed_text_is_refused() {
        for flags in [LZ4, ZSTD] {
            assert_eq!(found(&[(1, 90, flags, TEXT.as_bytes(), TEXT.len())]), Err(Code::INVALID_VALUE));
        }
    }
}
