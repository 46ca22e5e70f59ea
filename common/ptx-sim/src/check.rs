//! `ptx-sim check`: kernels of a file and what of them is not supported.

use std::io::{self, Write};
use std::process::ExitCode;

use ptx_sim::{KernelInfo, Unsupported, demangled};
use serde_json::{Value, json};

use crate::cli::Check;
use crate::json::kernel_json;
use crate::{Bounds, Failure, fidelity, load};

pub(crate) fn check(options: &Check) -> Result<ExitCode, Failure> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    let Some(file) = &options.file else {
        write_support(&mut out)?;
        out.flush()?;
        return Ok(ExitCode::SUCCESS);
    };
    let module = load(file, &options.linked.files, Bounds::new(&options.limits))?;
    let kernels: Vec<&KernelInfo> = module.kernels().collect();
    if options.json {
        let kernels: Vec<Value> = kernels.iter().map(|kernel| kernel_json(kernel)).collect();
        writeln!(out, "{}", json!({ "kernels": kernels }))?;
    } else {
        if kernels.is_empty() {
            writeln!(out, "{} has no kernels", module.name())?;
        }
        kernels.iter().try_for_each(|kernel| write_kernel(&mut out, kernel))?;
    }
    out.flush()?;
    let known = kernels.iter().all(|kernel| kernel.unsupported.is_empty() && kernel.unresolved.is_empty());
    Ok(if known { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

/// Writes the supported and the refused instructions, and how true the former are, in Markdown.
fn write_support(out: &mut impl Write) -> io::Result<()> {
    writeln!(
        out,
        "Instructions that run, in their forms up to compute capability 9.0 (of 10.0: `clusterlaunchcontrol`, `tcgen05`, `.f32x2`, arithmetic of `.f32` with `.f16` and `.bf16`) but for those below:\n"
    )?;
    let mut line = String::new();
    for name in ptx_sim::supported_mnemonics() {
        if line.len() + name.len() + 3 > 120 {
            writeln!(out, "{}", line.trim_end())?;
            line.clear();
        }
        line += &format!("`{name}` ");
    }
    writeln!(out, "{}\n", line.trim_end())?;
    writeln!(out, "| refused | reason |\n| --- | --- |")?;
    for item in ptx_sim::refused_forms() {
        let form = item.text.trim_start_matches('.').split_whitespace().next().unwrap_or_default();
        let dot = if item.text.starts_with('.') { "." } else { "" };
        writeln!(out, "| `{dot}{}` | {} |", form.trim_end_matches(';'), item.reason)?;
    }
    fidelity::write_rules(out)
}

fn write_kernel(out: &mut impl Write, kernel: &KernelInfo) -> io::Result<()> {
    match demangled(&kernel.name) {
        same if same == kernel.name => writeln!(out, "kernel {same}")?,
        readable => writeln!(out, "kernel {} = {readable}", kernel.name)?,
    }
    // A type may be as long as the file; a column is not.
    let width = kernel.params.iter().map(|param| param.ty.len()).max().unwrap_or(0).min(60);
    for (number, param) in (1..).zip(&kernel.params) {
        writeln!(out, "  parameter {number}: {:width$}  {}  offset {}", param.ty, param.name, param.offset)?;
    }
    writeln!(out, "  static shared memory: {} bytes", kernel.static_shared)?;
    match (kernel.required_threads, kernel.max_threads) {
        (Some([x, y, z]), _) => writeln!(out, "  launch bounds: a block of {x} × {y} × {z} threads")?,
        (None, Some(threads)) => writeln!(out, "  launch bounds: at most {threads} threads per block")?,
        (None, None) => writeln!(out, "  launch bounds: none")?,
    }
    if !kernel.unresolved.is_empty() {
        writeln!(out, "  functions without a body: {}", kernel.unresolved.join(", "))?;
    }
    if kernel.unsupported.is_empty() {
        return writeln!(out, "  unsupported instructions: none");
    }
    writeln!(out, "  unsupported instructions: {}", kernel.unsupported.len())?;
    for form in Unsupported::forms(&kernel.unsupported) {
        let first = form.lines[0];
        let place = if first == 0 { String::new() } else { format!("line {first}: ") };
        match form.lines.len() {
            1 => {
                let text = kernel.unsupported.iter().find(|item| item.line == first && item.reason == form.reason);
                let text = text.map_or(form.form.as_str(), |item| item.text.as_str());
                writeln!(out, "    {place}{text} ({})", form.reason)?;
            }
            count => writeln!(out, "    {place}{} ({}), {count} times", form.form, form.reason)?,
        }
    }
    Ok(())
}
