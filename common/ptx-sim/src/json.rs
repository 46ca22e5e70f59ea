//! JSON of results, faults and refusals.

use ptx_sim::{Fault, KernelInfo, LaunchReport, LoadError, Unsupported, UnsupportedForm, demangled};
use serde_json::{Value, json};

/// All results except the buffers.
pub(crate) fn results_json(report: LaunchReport, printed: &str) -> Value {
    let mut object = json!({
        "instructions": report.warp_instructions,
        "lane_instructions": report.lane_instructions,
    });
    if !printed.is_empty() {
        object["output"] = json!(printed);
    }
    object
}

pub(crate) fn fault_json(fault: &Fault, printed: &str) -> Value {
    let mut object = json!({ "fault": one_fault_json(fault) });
    if !printed.is_empty() {
        object["output"] = json!(printed);
    }
    object
}

fn one_fault_json(fault: &Fault) -> Value {
    let inlined: Vec<Value> = fault.inlined.iter().map(|(file, line)| json!({ "file": file, "line": line })).collect();
    json!({
        "kind": fault.kind.name(),
        "message": fault.message,
        "kernel": fault.kernel,
        "file": fault.file,
        "line": fault.line,
        "ptx_file": fault.ptx.0,
        "ptx_line": fault.ptx.1,
        "instruction": fault.instruction,
        "block": fault.block,
        "thread": fault.thread,
        "threads": fault.threads,
        "address": fault.address,
        "notes": fault.notes,
        "inlined": inlined,
    })
}

/// JSON of a finding. It always has a line: that of the PTX file where no CUDA source is known.
pub(crate) fn finding_json(finding: &Fault) -> Value {
    let place = |file: &Option<String>, line: Option<u32>, ptx: &(String, u32)| match (file, line) {
        (Some(file), Some(line)) => (file.clone(), line),
        _ => ptx.clone(),
    };
    let mut object = one_fault_json(finding);
    let (file, line) = place(&finding.file, finding.line, &finding.ptx);
    object["file"] = json!(file);
    object["line"] = json!(line);
    object["count"] = json!(finding.count);
    if let Some(other) = &finding.other {
        let (file, line) = place(&other.file, other.line, &other.ptx);
        object["other"] = json!({
            "access": other.what, "file": file, "line": line, "block": other.block, "thread": other.thread,
        });
    }
    object
}

fn unsupported_json(items: &[Unsupported]) -> Value {
    items.iter().map(|item| json!({ "line": item.line, "text": item.text, "reason": item.reason })).collect()
}

fn forms_json(items: &[Unsupported]) -> Value {
    let form = |form: &UnsupportedForm| {
        let UnsupportedForm { form, reason, lines } = form;
        json!({ "form": form, "reason": reason, "count": lines.len(), "lines": lines })
    };
    Unsupported::forms(items).iter().map(form).collect()
}

/// JSON of the reason why a file or a kernel of it cannot be loaded.
pub(crate) fn load_error_json(error: &LoadError) -> Value {
    let mut object = json!({ "message": error.to_string() });
    match error {
        LoadError::Syntax { file, line, message, .. } => {
            object["kind"] = json!("syntax");
            object["file"] = json!(file);
            object["line"] = json!(line);
            object["message"] = json!(message);
        }
        LoadError::Unsupported { kernel, file, items } => {
            object["kind"] = json!("unsupported");
            object["kernel"] = json!(kernel);
            object["file"] = json!(file);
            object["instructions"] = unsupported_json(items);
            object["forms"] = forms_json(items);
        }
        LoadError::Unresolved { kernel, file, functions } => {
            object["kind"] = json!("unresolved");
            object["kernel"] = json!(kernel);
            object["file"] = json!(file);
            object["functions"] = json!(functions);
        }
        LoadError::UnknownKernel { kernel, file, known } => {
            object["kind"] = json!("unknown-kernel");
            object["kernel"] = json!(kernel);
            object["file"] = json!(file);
            object["kernels"] = json!(known);
        }
        _ => object["kind"] = json!("memory"),
    }
    json!({ "refused": object })
}

pub(crate) fn kernel_json(kernel: &KernelInfo) -> Value {
    let params: Vec<Value> = kernel
        .params
        .iter()
        .map(|param| json!({ "name": param.name, "type": param.ty, "offset": param.offset, "size": param.size }))
        .collect();
    json!({
        "name": kernel.name,
        "readable_name": demangled(&kernel.name),
        "params": params,
        "static_shared": kernel.static_shared,
        "max_threads": kernel.max_threads,
        "required_threads": kernel.required_threads,
        "unsupported": unsupported_json(&kernel.unsupported),
        "unsupported_forms": forms_json(&kernel.unsupported),
        "unresolved": *kernel.unresolved,
    })
}
