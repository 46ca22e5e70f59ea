//! Guarantees of the steps beyond their kernels, on both devices.

use bench::table::{Cell, Table};
use bench::timing::{Bench, Queue};
use common::device::{Counts, SimOptions};
use common::device_test;
use common::prelude::*;
use common::probe::Component;
use common::reference::{BatchNorm, Conv2dParams, batch_norm, conv2d, relu};
use phase1_infra::{
    Run, STEPS, doctor, step02_memory, step03_transfers, step04_vector_add, step06_launch_overhead, step07_streams,
    step08_transfer_test, step09_errors, step10_benchmarking,
};

/// The shortest possible measurement.
const ONCE: Bench = Bench { warm_up: 0, repeats: 1, limit: std::time::Duration::ZERO, queue: Queue::Empty };

device_test! {
    fn memory_is_counted_and_given_back(device) {
        const FOUR_MIB: u64 = 4 << 20;
        let entries = step02_memory::record(&device)?;
        let counted: Vec<_> = entries.iter().map(|entry| (entry.memory.allocations, entry.memory.in_use)).collect();
        let expected = [
            (0, 0),
            (1, FOUR_MIB),
            (2, 2 * FOUR_MIB),
            (3, 2 * FOUR_MIB + 1000),
            (2, FOUR_MIB + 1000),
            (0, 0),
            (0, 0),
        ];
        assert_eq!(counted, expected);
        assert!(entries.iter().all(|entry| entry.memory.peak >= entry.memory.in_use));
        assert_eq!(entries[6].memory.peak, 2 * FOUR_MIB + 1000);
        assert!(entries[6].action.starts_with("out of memory on"), "{}", entries[6].action);
        Ok(())
    }

    fn bytes_arrive_on_every_path_and_times_are_a_gpus_only(device) {
        for path in step03_transfers::Path::ALL {
            for bytes in [0, 1, 255, 4096, 100_003] {
                let transfer = step03_transfers::measure(&device.stream(), path, bytes, &ONCE)?;
                assert_eq!((transfer.path, transfer.bytes), (path, bytes));
                assert_eq!(transfer.events.is_some(), device.is_cuda());
                assert_eq!(transfer.host.is_some(), device.is_cuda());
            }
        }
        assert_eq!(device.memory().allocations, 0);
        Ok(())
    }

    fn launches_in_every_way_all_run(device) {
        let stream = device.stream();
        let kernel = device.kernel(&step06_launch_overhead::SOURCE, "empty")?;
        for way in step06_launch_overhead::Way::ALL {
            let timing = step06_launch_overhead::measure(&stream, &kernel, way, 10)?;
            assert_eq!(timing.median_ms().is_some(), device.is_cuda(), "{way:?}");
            assert!(timing.median_ms().is_none_or(|ms| ms > 0.0), "{way:?}");
            assert!(timing.counts().is_none_or(|counts| counts.launches == 10), "{way:?}");
        }
        Ok(())
    }

    fn a_pipeline_computes_the_same_on_any_number_of_streams(device) {
        let main = device.stream();
        let kernel = device.kernel(&step07_streams::SOURCE, "iterate")?;
        let workers = (0..4).map(|_| device.new_stream()).collect::<Result<Vec<_>>>()?;
        for (streams, count, len) in [(1, 1, 1), (2, 5, 257), (3, 3, 1000), (4, 9, 100_003)] {
            let mut chunks = step07_streams::chunks(&device, count, len)?;
            let marks = step07_streams::pipeline(&main, &workers[..streams], &kernel, 7, &mut chunks)?;
            assert_eq!(marks.len(), count);
            step07_streams::check(&chunks, 7)?;
        }
        Ok(())
    }

    /// Each chunk's events come in the order of its stream, and what `main` does next comes after all of them.
    fn events_of_a_pipeline_are_in_order(device) {
        let main = device.stream();
        let kernel = device.kernel(&step07_streams::SOURCE, "iterate")?;
        let workers = [device.new_stream()?, device.new_stream()?];
        let mut chunks = step07_streams::chunks(&device, 6, 50_000)?;
        let begin = main.record_event()?;
        let marks = step07_streams::pipeline(&main, &workers, &kernel, 100, &mut chunks)?;
        let end = main.record_event()?;
        for marks in &marks {
            let path = [&begin, &marks[0], &marks[1], &marks[2], &marks[3], &end];
            for (i, pair) in path.windows(2).enumerate() {
                match pair[0].counts_until(pair[1]) {
                    // A chunk's own kernel runs only between its second and third mark.
                    Some(Counts { launches, .. }) => assert!(i == 0 || i == 4 || launches == u64::from(i == 2), "{i}"),
                    None => assert!(pair[0].elapsed_ms(pair[1])? >= 0.0, "mark {i}"),
                }
            }
        }
        Ok(())
    }

    fn an_output_that_was_never_copied_is_found(device) {
        let chunks = step07_streams::chunks(&device, 1, 10)?;
        let error = step07_streams::check(&chunks, 1).unwrap_err().to_string();
        assert!(error.starts_with("streams, chunk 0: 10 of 10 values are wrong"), "{error}");
        Ok(())
    }

    fn the_transfer_test_computes_the_layers_and_counts_their_bytes(device) {
        let input = Tensor::random(&[1, 3, 30, 22], 5);
        let layers = step08_transfer_test::layers();
        let (measured, output) = step08_transfer_test::measure(&device, &layers, input)?;
        assert_eq!(output.shape(), [1, 64, 8, 6]);

        let activations = [3 * 30 * 22, 64 * 15 * 11, 64 * 15 * 11, 64 * 15 * 11, 64 * 8 * 6, 64 * 8 * 6];
        let parameters = [64 * 3 * 7 * 7, 4 * 64, 0, 64 * 64 * 3 * 3, 4 * 64, 0];
        for (i, layer) in measured.iter().enumerate() {
            assert_eq!(layer.bytes, 2 * 4 * (activations[i] + parameters[i]), "{}", layer.name);
            assert_eq!(layer.transfer.is_some(), device.is_cuda());
            assert_eq!(layer.memory.in_use, 0, "{} left something on the device", layer.name);
        }
        assert_eq!(measured.len(), activations.len());
        Ok(())
    }

    fn every_mistake_is_noticed_as_what_it_is(device) {
        let observed = step09_errors::observe(&device)?;
        let kinds: Vec<&str> = observed.iter().map(|observed| kind(&observed.error)).collect();
        let compiler = if common::compile::compiler_name().is_ok() { "compile" } else { "no compiler" };
        let expected = [
            "config", "config", "config", "arguments", "arguments", "device", "length", "name", compiler, "fault", "fault",
        ];
        assert_eq!(kinds, expected);
        let (before, inside) = observed.split_at(9);
        assert!(before.iter().all(|observed| observed.device == device.short_name()));
        assert!(inside.iter().all(|observed| observed.device == "sim"));
        assert!(inside[0].error.to_string().contains("05_mistakes.cu:8"), "{}", inside[0].error);
        assert!(inside[1].error.to_string().contains("05_mistakes.cu:16"), "{}", inside[1].error);
        // The device still works.
        let sum = phase1_infra::step04_vector_add::add_on(&device, &[1.0], &[2.0])?;
        assert_eq!(sum, [3.0]);
        Ok(())
    }

    /// The figure that does less work than it says is the only one that a check of the values, or a count, gives away.
    fn a_tenth_of_the_work_is_noticed_by_the_check_alone(device) {
        let stream = device.stream();
        let kernel = device.kernel(&step04_vector_add::SOURCE, "vector_add")?;
        let (a, b) = (Tensor::random(&[10_240], 1).into_vec()?, Tensor::random(&[10_240], 2).into_vec()?);
        for way in step10_benchmarking::Way::ALL {
            let (timing, c) = step10_benchmarking::measure(&stream, &kernel, way, &a, &b)?;
            let written = c.iter().filter(|value| !value.is_nan()).count();
            let expected = if way == step10_benchmarking::Way::TenthOfTheWork { 1024 } else { 10_240 };
            assert_eq!(written, expected, "{way:?}");
            assert_eq!(timing.median_ms().is_some(), device.is_cuda(), "{way:?}");
        }
        Ok(())
    }

    /// A column of times has numbers on a GPU and dashes on the simulator, and the other way round for counts.
    fn tables_never_show_one_clock_as_another(device) {
        let run = |name: &str| -> Result<Vec<Table>> {
            let step = STEPS.iter().find(|step| step.name == name).unwrap();
            let Run::OnDevice(run) = step.run else { panic!("{name} runs anywhere") };
            let tables = run(&device)?;
            assert_eq!(tables.len(), step.tables.len(), "{name}");
            Ok(tables)
        };
        for (step, table, times, counts) in [
            ("transfers", 0, vec!["GB/s, events", "GB/s, host clock"], vec![]),
            ("vector-add", 0, vec!["ms", "GB/s"], vec!["lane instructions per element"]),
            ("grid-stride", 0, vec!["ms", "GB/s"], vec!["lane instructions per element"]),
            ("launch-overhead", 0, vec!["µs per launch", "quartile 1", "quartile 3"], vec!["instructions per launch"]),
            ("streams", 0, vec!["ms"], vec!["lane instructions"]),
            ("benchmarking", 0, vec!["µs", "quartile 1", "quartile 3", "GB/s"], vec!["lane instructions"]),
            ("streams", 1, vec!["begins, ms", "ends, ms"], vec!["lane instructions until its end"]),
        ] {
            let table = &run(step)?[table];
            for (names, expected) in [(times, device.is_cuda()), (counts, device.is_sim())] {
                for name in names {
                    for cell in column(table, name) {
                        assert_eq!(matches!(cell, Cell::Number(_)), expected, "{step}, {name}: {cell:?}");
                        assert!(matches!(cell, Cell::Number(_) | Cell::Absent(_)), "{step}, {name}: {cell:?}");
                    }
                }
            }
        }
        Ok(())
    }
}

fn column<'a>(table: &'a Table, name: &str) -> impl Iterator<Item = &'a Cell> {
    let at = table.columns.iter().position(|column| column.heading == name);
    let at = at.unwrap_or_else(|| panic!("`{}` has no column `{name}`", table.title));
    table.rows().iter().map(move |row| &row[at])
}

fn kind(error: &Error) -> &'static str {
    match error {
        Error::LaunchConfig { .. } => "config",
        Error::Arguments { .. } => "arguments",
        Error::WrongDevice { .. } => "device",
        Error::Length { .. } => "length",
        Error::NoSuchKernel { .. } => "name",
        Error::Compile { .. } => "compile",
        Error::CompilerMissing { .. } => "no compiler",
        Error::Fault { .. } => "fault",
        _ => "other",
    }
}

/// Layer by layer, so that each tolerance is that of one operation.
#[test]
fn the_transfer_tests_layers_are_those_of_the_references() {
    let device = Device::sim();
    let input = || Tensor::random(&[1, 3, 16, 18], 5);
    let one = |n: usize| {
        let layers = step08_transfer_test::layers().into_iter().take(n).collect::<Vec<_>>();
        step08_transfer_test::measure(&device, &layers, input()).unwrap().1
    };
    let close = |actual: &Tensor, expected: common::reference::Reference| {
        common::check::assert_close(actual.as_slice().unwrap(), &expected.values, expected.tolerance());
    };
    let weight = Tensor::random(&[64, 3, 7, 7], 1);
    close(&one(1), conv2d(&input(), &weight, None, Conv2dParams::new(2, 3)).unwrap());

    let [weight, bias, mean] = [2, 3, 4].map(|seed| Tensor::random(&[64], seed));
    let variance = Tensor::from_fn(&[64], |at| 1.0 + at[0] as f32);
    let norm = BatchNorm { weight: &weight, bias: &bias, mean: &mean, variance: &variance, eps: 1e-5 };
    close(&one(2), batch_norm(&one(1), &norm).unwrap());
    close(&one(3), relu(&one(2)).unwrap());
}

#[test]
fn a_small_device_runs_out_of_memory_with_a_sentence() {
    let device = Device::sim_with(SimOptions { memory: 6 << 20, ..SimOptions::default() });
    let error = step02_memory::record(&device).unwrap_err();
    assert!(matches!(error, Error::OutOfMemory { requested, .. } if requested == 4 << 20), "{error}");
    assert_eq!(device.memory().in_use, 0);
}

#[test]
fn doctor_tells_what_is_there_and_what_mends_the_rest() {
    let row = |present: bool| Component {
        name: "NVRTC",
        present,
        version: present.then(|| "13.0".to_owned()),
        path: present.then(|| "/opt/cuda/libnvrtc.so.13".into()),
        detail: (!present).then(|| "libnvrtc.so.13: not found; libnvrtc.so.12: not found".to_owned()),
        without: "edited kernels cannot be compiled",
        remedy: "pip install nvrtc",
    };
    let table = doctor::table(&[row(true), row(false)]);
    let text = |row: usize| table.rows()[row].iter().map(|cell| format!("{cell:?}")).collect::<Vec<_>>().join(" ");
    assert_eq!(text(0), r#"Text("NVRTC") Text("13.0") Text("/opt/cuda/libnvrtc.so.13")"#);
    assert_eq!(
        text(1),
        r#"Text("NVRTC") Text("absent") Text("edited kernels cannot be compiled\n$ pip install nvrtc\n(libnvrtc.so.13: not found)")"#
    );
    let all = &doctor::run().unwrap()[0];
    let names: Vec<_> = all.rows().iter().map(|row| row[0].clone()).collect();
    for name in ["NVIDIA driver", "NVRTC", "cuBLAS", "cuDNN", "NCCL"] {
        assert!(names.contains(&Cell::from(name)), "{name}");
    }

    let far = |mut component: Component| {
        component.path = component.path.map(|_| format!("/home/{}/libnvrtc.so.13", ["python3.11"; 9].join("/")).into());
        component.remedy =
            "python3 -m venv .venv && . .venv/bin/activate && pip install \"cuda-toolkit[nvrtc]==13.0.*\"";
        component
    };
    let text = doctor::table(&[far(row(true)), far(row(false))]).to_text();
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(text.contains("│ $ python3 -m venv .venv && . .venv/bin/activate && "), "{text}");
    assert!(text.contains("│   pip install \"cuda-toolkit[nvrtc]==13.0.*\" "), "{text}");
}

/// A unit for each operation of 8 chunks on 1 to 4 streams, as the book predicts.
#[test]
fn the_pipeline_overlaps_as_much_as_three_engines_can() {
    let device = Device::sim_with(SimOptions { sanitize: true, ..SimOptions::default() });
    let kernel = device.kernel(&step07_streams::SOURCE, "iterate").unwrap();
    let workers = [(); 4].map(|()| device.new_stream().unwrap());
    let mut chunks = step07_streams::chunks(&device, 8, 33).unwrap();
    let units = [1, 2, 3, 4].map(|streams| {
        let pipeline = || {
            step07_streams::pipeline(&device.stream(), &workers[..streams], &kernel, 7, &mut chunks)?;
            device.synchronize()
        };
        let schedule = device.schedule(pipeline).unwrap();
        assert_eq!(schedule.operations().len(), 24);
        schedule.units()
    });
    assert_eq!(units, [24, 13, 10, 10]);
    // Without a sanitiser nothing knows the order.
    let refused = Device::sim().schedule(|| Ok(())).unwrap_err();
    assert!(matches!(refused, Error::Unsupported { .. }), "{refused}");
}

/// Run twice in a row, and then looked at from the main stream: every use of a buffer on another stream is ordered by an event.
#[test]
fn the_sanitiser_finds_the_pipeline_in_order() {
    let device = Device::sim_with(SimOptions { sanitize: true, ..SimOptions::default() });
    let main = device.stream();
    let kernel = device.kernel(&step07_streams::SOURCE, "iterate").unwrap();
    let workers = [device.new_stream().unwrap(), device.new_stream().unwrap()];
    let mut chunks = step07_streams::chunks(&device, 3, 257).unwrap();
    for _ in 0..2 {
        step07_streams::pipeline(&main, &workers, &kernel, 7, &mut chunks).unwrap();
    }
    main.clone_dtoh(&chunks[2].values).unwrap();
    step07_streams::check(&chunks, 7).unwrap();
    // Without the workers' wait for the main stream, and its wait for them, there is something to find.
    let step07_streams::Chunk { input, values, .. } = &mut chunks[2];
    workers[0].memcpy_htod(input, values).unwrap();
    let error = main.clone_dtoh(&chunks[2].values).unwrap_err();
    assert!(matches!(&error, Error::UnorderedStreams { findings, .. } if findings.len() == 1), "{error}");
}
