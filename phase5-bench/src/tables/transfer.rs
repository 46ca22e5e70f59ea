//! `transfer`: how fast bytes travel between host and device, and inside the device.
//!
//! Every copy is checked: its destination is filled with another value before, and compared with the source after. On a GPU
//! copies are timed by events; the simulator has no link and no clock, so there is only the check.

use bench::table::{Cell, ColumnSpec};
use bench::timing::{Bench, NO_CLOCK, Timing};
use common::prelude::*;
use common::progress::Progress;
use rayon::prelude::*;

use crate::spec::{Context, FinishedTable, Make, Need, TableSpec};

const DIRECTION: ColumnSpec = ColumnSpec::text("copy", "copy");
const HOST_MEMORY: ColumnSpec = ColumnSpec::text("host_memory", "host memory");
const SIZE: ColumnSpec = ColumnSpec::text("size", "size");
const GBPS: ColumnSpec = ColumnSpec::number("gbps", "GB/s", 2);
const OF_LIMIT: ColumnSpec = ColumnSpec::number("of_limit", "% of limit", 1);
const CONTENTS: ColumnSpec = ColumnSpec::text("contents", "contents");
const COLUMNS: &[ColumnSpec] = &[DIRECTION, HOST_MEMORY, SIZE, GBPS, OF_LIMIT, CONTENTS];

/// 1 KiB to 1 GiB, each four times the previous one.
const SIZES: [usize; 11] = {
    let mut sizes = [1 << 10; 11];
    let mut i = 1;
    while i < sizes.len() {
        sizes[i] = 4 * sizes[i - 1];
        i += 1;
    }
    sizes
};

/// On the simulator a larger copy takes its time and shows nothing new.
const LARGEST_SIMULATED: usize = 4 << 20;

/// A direction, and the kind of host memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copy {
    HostToDevice { pinned: bool },
    DeviceToHost { pinned: bool },
    DeviceToDevice,
}

const COPIES: [Copy; 5] = [
    Copy::HostToDevice { pinned: false },
    Copy::HostToDevice { pinned: true },
    Copy::DeviceToHost { pinned: false },
    Copy::DeviceToHost { pinned: true },
    Copy::DeviceToDevice,
];

impl Copy {
    fn direction(self) -> &'static str {
        match self {
            Copy::HostToDevice { .. } => "H2D",
            Copy::DeviceToHost { .. } => "D2H",
            Copy::DeviceToDevice => "D2D",
        }
    }

    fn host_memory(self) -> &'static str {
        match self {
            Copy::HostToDevice { pinned } | Copy::DeviceToHost { pinned } => {
                if pinned {
                    "pinned"
                } else {
                    "pageable"
                }
            }
            Copy::DeviceToDevice => "none",
        }
    }

    /// Bytes that pass the limit for each byte copied: inside the device, each is read and written by the same memory.
    fn traffic(self) -> f64 {
        if self == Copy::DeviceToDevice { 2.0 } else { 1.0 }
    }
}

/// One copy of one size: bytes/s through the link or the memory, unless there is no clock, and whether all bytes arrived.
struct Measured {
    rate: Option<f64>,
    equal: bool,
}

/// The table in the registry.
pub const TABLE: TableSpec = TableSpec {
    name: "transfer",
    shows: "copies of 1 KiB to 1 GiB, host and device: GB/s, % of the limit",
    uses: &[Need::Gpu],
    columns: COLUMNS,
    make: Make::Measured(run),
};

/// Makes the table.
fn run(context: &Context) -> crate::Result<FinishedTable> {
    let device = &context.device;
    let (sizes, skipped): (Vec<usize>, Vec<usize>) =
        SIZES.iter().partition(|&&size| device.is_cuda() || size <= LARGEST_SIMULATED);
    let progress = Progress::new((sizes.len() * COPIES.len()) as u64, "transfer");
    // For each size a result for each copy, or why there is none.
    let mut measured: Vec<std::result::Result<Vec<Measured>, String>> = Vec::new();
    for &size in &sizes {
        let mut buffers = match Buffers::new(device, size) {
            Ok(buffers) => buffers,
            Err(error @ common::Error::OutOfMemory { .. }) => {
                measured.push(Err(error.to_string()));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let mut results = Vec::new();
        for copy in COPIES {
            progress.set_message(format!("transfer: {} {}", copy.direction(), bytes(size)));
            results.push(buffers.measure(copy)?);
            progress.inc(1);
        }
        measured.push(Ok(results));
    }
    progress.finish();

    let best = |direction: &str| {
        let all = measured.iter().flatten().flat_map(|results| COPIES.iter().zip(results));
        all.filter(|(copy, _)| copy.direction() == direction).filter_map(|(_, result)| result.rate).fold(0.0, f64::max)
    };
    // A link that was outrun is not the link: virtual machines report what they please.
    let link = Link::of(device).filter(|link| best("H2D").max(best("D2H")) <= link.bytes_per_second());
    let memory = device.properties().memory_bandwidth();

    let mut table = context.table(format!("transfer on {}", device.short_name()), COLUMNS);
    let mut wrong = Vec::new();
    for (at, copy) in COPIES.into_iter().enumerate() {
        let known = match copy {
            Copy::DeviceToDevice => memory,
            _ => link.as_ref().map(Link::bytes_per_second),
        };
        let limit = known.unwrap_or_else(|| best(copy.direction()));
        for (&size, results) in sizes.iter().zip(&measured) {
            let row = table.row().set(DIRECTION, copy.direction()).set(HOST_MEMORY, copy.host_memory());
            let row = row.set(SIZE, bytes(size));
            match results.as_ref().map(|results| &results[at]) {
                Ok(Measured { rate, equal }) => {
                    if !equal {
                        wrong.push(format!("{} of {}: the bytes differ", copy.direction(), bytes(size)));
                    }
                    row.set(GBPS, Cell::or_absent(rate.map(|rate| rate / 1e9), NO_CLOCK))
                        .set(OF_LIMIT, Cell::or_absent(rate.map(|rate| 100.0 * rate / limit), NO_CLOCK))
                        .set(CONTENTS, if *equal { "equal" } else { "DIFFER" })
                        .finish("not measured");
                }
                Err(reason) => row.finish(reason),
            }
        }
    }
    if device.is_cuda() {
        table.note("Medians by events; GB is 10⁹ bytes. D2D reads and writes each byte and counts both.");
        table.note(match &link {
            Some(link) => format!(
                "Limit of H2D and D2H: PCIe, {} GT/s × {} lanes, {:.1} GB/s each way.",
                link.transfers,
                link.lanes,
                link.bytes_per_second() / 1e9
            ),
            None => {
                "Limit of H2D and D2H: the best measured in that direction; the link's own is not known.".to_owned()
            }
        });
        table.note(match memory {
            Some(memory) => format!(
                "Limit of D2D: the memory, {:.0} GB/s. Copies that fit the L2 cache{} may exceed it.",
                memory / 1e9,
                device.properties().l2_bytes.map_or_else(String::new, |l2| format!(" ({} MiB)", l2 >> 20))
            ),
            None => "Limit of D2D: the best measured; the memory's own is not known.".to_owned(),
        });
    }
    if !skipped.is_empty() {
        let list: Vec<String> = skipped.iter().map(|&size| bytes(size)).collect();
        table.note(format!(
            "Left out: {}; on the simulator they take time and show nothing that smaller copies do not.",
            list.join(", ")
        ));
    }
    Ok(FinishedTable { table: table.finish(), wrong })
}

/// Buffers for the copies of one size.
struct Buffers {
    stream: Stream,
    source: Vec<u64>,
    pageable: Vec<u64>,
    pinned: PinnedBuffer<u64>,
    a: Buffer<u64>,
    b: Buffer<u64>,
}

/// Never a word of [`pattern`].
const OTHER: u64 = u64::MAX;

/// Distinct words below 2⁶³: an odd multiplier is a bijection of them.
fn pattern(words: usize) -> Vec<u64> {
    (0..words as u64).into_par_iter().map(|i| (i + words as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 1).collect()
}

impl Buffers {
    fn new(device: &Device, bytes: usize) -> common::Result<Buffers> {
        let words = bytes / size_of::<u64>();
        let stream = device.stream();
        Ok(Buffers {
            source: pattern(words),
            pageable: vec![OTHER; words],
            pinned: device.alloc_pinned(words)?,
            a: stream.alloc_poisoned(words)?,
            b: stream.alloc_poisoned(words)?,
            stream,
        })
    }

    fn measure(&mut self, copy: Copy) -> common::Result<Measured> {
        let Buffers { stream, source, pageable, pinned, a, b } = self;
        let bench = Bench { limit: std::time::Duration::from_secs(2), ..Bench::default() };
        let (timing, equal): (Timing, bool) = match copy {
            Copy::HostToDevice { pinned: false } => {
                stream.poison(a)?;
                (bench.measure(stream, || stream.memcpy_htod(source, a))?, stream.clone_dtoh(a)? == *source)
            }
            Copy::HostToDevice { pinned: true } => {
                pinned.as_mut_slice()?.copy_from_slice(source);
                stream.poison(a)?;
                (bench.measure(stream, || stream.memcpy_htod(pinned, a))?, stream.clone_dtoh(a)? == *source)
            }
            Copy::DeviceToHost { pinned: false } => {
                stream.memcpy_htod(source, a)?;
                pageable.fill(OTHER);
                (bench.measure(stream, || stream.memcpy_dtoh(a, pageable))?, pageable == source)
            }
            Copy::DeviceToHost { pinned: true } => {
                stream.memcpy_htod(source, a)?;
                pinned.as_mut_slice()?.fill(OTHER);
                (bench.measure(stream, || stream.memcpy_dtoh(a, pinned))?, pinned.as_slice()? == source.as_slice())
            }
            Copy::DeviceToDevice => {
                stream.memcpy_htod(source, a)?;
                stream.poison(b)?;
                (bench.measure(stream, || stream.memcpy_dtod(a, b))?, stream.clone_dtoh(b)? == *source)
            }
        };
        let traffic = copy.traffic() * size_of_val(source.as_slice()) as f64;
        Ok(Measured { rate: timing.rate(traffic), equal })
    }
}

/// The PCIe link of a GPU, as the operating system reports it.
struct Link {
    /// In 10⁹ per second and lane: 32 for generation 5.
    transfers: f64,
    lanes: f64,
}

impl Link {
    /// `None` if the device has none, or the system does not report it: only Linux has the files.
    fn of(device: &Device) -> Option<Link> {
        let address = pci_address(device)?;
        let read = |name: &str| std::fs::read_to_string(format!("/sys/bus/pci/devices/{address}/{name}")).ok();
        Link::parse(&read("max_link_speed")?, &read("max_link_width")?)
    }

    /// `32.0 GT/s PCIe` and `16`.
    fn parse(speed: &str, width: &str) -> Option<Link> {
        let transfers = speed.split_whitespace().next()?.parse().ok()?;
        let lanes = width.trim().parse().ok()?;
        (transfers > 0.0 && lanes > 0.0).then_some(Link { transfers, lanes })
    }

    /// One bit per transfer and lane; 8 of 10 bits are data up to 5 GT/s, 128 of 130 above (PCI Express Base Specification,
    /// 8b/10b and 128b/130b encoding). The overhead of packet headers is not subtracted.
    fn bytes_per_second(&self) -> f64 {
        let data = if self.transfers <= 5.0 { 8.0 / 10.0 } else { 128.0 / 130.0 };
        self.transfers * 1e9 * self.lanes * data / 8.0
    }
}

#[cfg(feature = "cuda")]
fn pci_address(device: &Device) -> Option<String> {
    use cudarc::driver::sys::CUdevice_attribute::{
        CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID,
    };
    let context = device.as_cuda()?.context();
    let domain = context.attribute(CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID).ok()?;
    let bus = context.attribute(CU_DEVICE_ATTRIBUTE_PCI_BUS_ID).ok()?;
    let device = context.attribute(CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID).ok()?;
    Some(format!("{domain:04x}:{bus:02x}:{device:02x}.0"))
}

#[cfg(not(feature = "cuda"))]
fn pci_address(_: &Device) -> Option<String> {
    None
}

/// A size with its binary prefix; sizes here are powers of two.
fn bytes(size: usize) -> String {
    match size {
        0x400..0x10_0000 => format!("{} KiB", size >> 10),
        0x10_0000..0x4000_0000 => format!("{} MiB", size >> 20),
        0x4000_0000.. => format!("{} GiB", size >> 30),
        _ => format!("{size} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use media::photo::Photo;

    #[test]
    fn the_words_of_a_pattern_are_distinct_and_none_is_the_other_value() {
        let mut words = pattern(1 << 16);
        words.sort_unstable();
        words.dedup();
        // The shift may join two; what matters is that a shifted or repeated block is found out.
        assert!(words.len() > (1 << 16) - 4 && !words.contains(&OTHER));
        assert_ne!(pattern(4)[..2], pattern(2)[..]);
    }

    #[test]
    fn the_rate_of_a_link_is_that_of_its_generation() {
        let rate = |speed: &str, width: &str| Link::parse(speed, width).map(|link| link.bytes_per_second() / 1e9);
        assert!((rate("32.0 GT/s PCIe\n", "16\n").unwrap() - 63.0).abs() < 0.1);
        assert!((rate("8.0 GT/s PCIe", "16").unwrap() - 15.75).abs() < 0.01);
        assert_eq!(rate("5.0 GT/s PCIe", "8"), Some(4.0));
        assert_eq!(rate("Unknown", "16"), None);
        assert_eq!(rate("2.5 GT/s PCIe", "0"), None);
        assert_eq!(rate("", ""), None);
    }

    #[test]
    fn sizes_are_named() {
        let names: Vec<String> = SIZES.iter().map(|&size| bytes(size)).collect();
        assert_eq!(names[..2], ["1 KiB", "4 KiB"]);
        assert_eq!(names[9..], ["256 MiB", "1 GiB"]);
    }

    #[test]
    fn too_little_memory_for_a_size_is_a_dash_with_the_reason() {
        use common::device::SimOptions;
        let device = Device::sim_with(SimOptions { memory: 1 << 20, ..SimOptions::default() });
        let outcome = run(&Context::new(device, Photo::built_in())).unwrap();
        assert!(outcome.wrong.is_empty());
        let contents = |size: &str| {
            let row = outcome.table.find(&[(SIZE, size.into())]).unwrap().unwrap();
            row.cell(CONTENTS).unwrap().clone()
        };
        assert_eq!(contents("256 KiB"), "equal".into());
        let Cell::Absent(reason) = contents("4 MiB") else { panic!("4 MiB fit 1 MiB") };
        assert!(reason.starts_with("out of memory on sim: 4194304 bytes requested"), "{reason}");
    }
}
