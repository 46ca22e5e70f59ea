//! Plans as tables.

use bench::table::{Cell, ColumnSpec, Table, TableBuilder};

use super::Plan;
use super::launch::Launch;

const NUMBER: ColumnSpec = ColumnSpec::identity("launch", "#");
const LAYERS: ColumnSpec = ColumnSpec::text("layers", "layers");
const KERNEL: ColumnSpec = ColumnSpec::text("kernel", "kernel");
const MIB: ColumnSpec = ColumnSpec::number("mib", "MiB", 2);
const MFLOP: ColumnSpec = ColumnSpec::number("mflop", "MFLOP", 1);
const MICROSECONDS: ColumnSpec = ColumnSpec::number("us", "µs", 1);
const WHY: ColumnSpec = ColumnSpec::text("why", "why");

const FORMAT: ColumnSpec = ColumnSpec::text("format", "format");

const LAUNCHES: ColumnSpec = ColumnSpec::number("launches", "launches", 0);

impl Plan {
    /// A row for launches that do the same, whatever their sizes: for plans of hundreds. The kernel is what all of them have in common,
    /// or how many there are.
    pub fn summary(&self, title: impl Into<String>) -> Table {
        let without_sizes = |launch: &Launch| {
            let words: Vec<&str> = launch.layers.split(' ').filter(|word| !word.contains('→')).collect();
            words.join(" ")
        };
        let mut kinds: Vec<(String, Vec<&Launch>)> = Vec::new();
        for launch in &self.launches {
            let layers = without_sizes(launch);
            match kinds.iter_mut().find(|(kind, _)| *kind == layers) {
                Some((_, launches)) => launches.push(launch),
                None => kinds.push((layers, vec![launch])),
            }
        }
        let mut table = TableBuilder::of(title, [LAYERS, LAUNCHES, KERNEL, MIB, MFLOP]);
        for (layers, launches) in kinds {
            let mut kernels: Vec<&str> = launches.iter().map(|launch| &*launch.kernel).collect();
            kernels.sort_unstable();
            kernels.dedup();
            let kernel = match kernels[..] {
                [one] => one.to_owned(),
                [first, ..] => format!("{first} and {} more", kernels.len() - 1),
                [] => String::new(),
            };
            let row = table.row().set(LAYERS, layers).set(LAUNCHES, launches.len()).set(KERNEL, kernel);
            let bytes = launches.iter().map(|launch| launch.bytes).sum::<u64>();
            let flops: Option<u64> = launches.iter().map(|launch| launch.flops).sum();
            let flops = flops.map(|flops| flops as f64 / 1e6);
            row.set(MIB, bytes as f64 / f64::from(1 << 20))
                .set(MFLOP, Cell::or_absent(flops, "only products are counted"))
                .complete();
        }
        table.note(format!("{} launches in all.", self.launches.len()));
        table.finish()
    }

    /// A row per launch, with what each one takes where that was measured.
    pub fn table(&self, title: impl Into<String>, milliseconds: Option<&[f64]>) -> Table {
        let measured = milliseconds.map(|_| MICROSECONDS);
        let format = self.mixed.then_some(FORMAT);
        let first = [NUMBER].into_iter().chain(format).chain([LAYERS, KERNEL, MIB, MFLOP]);
        let columns = first.chain(measured).chain([WHY]);
        let mut table = TableBuilder::of(title, columns);
        for (number, launch) in self.launches.iter().enumerate() {
            let row = table.row().set(NUMBER, number).set(LAYERS, &*launch.layers).set(KERNEL, &*launch.kernel);
            let row = row.set(MIB, launch.bytes as f64 / f64::from(1 << 20)).set(WHY, &*launch.why);
            let flops = launch.flops.map(|flops| flops as f64 / 1e6);
            let row = row.set(MFLOP, Cell::or_absent(flops, "only products are counted"));
            let row = if self.mixed { row.set(FORMAT, launch.format.to_string()) } else { row };
            match milliseconds.and_then(|all| all.get(number)) {
                Some(ms) => row.set(MICROSECONDS, 1e3 * ms).complete(),
                None => row.complete(),
            }
        }
        table.note(
            "layers: R×S/stride for a convolution, then what its launch does to a sum before it is stored; BN: BatchNorm. MiB: \
             read and written, each value once. sums: rows × columns of the product that a convolution is; steps: along K; +0: \
             channels are filled up with zeros.",
        );
        self.notes.iter().for_each(|note| table.note(note));
        table.finish()
    }
}
