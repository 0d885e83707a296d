/** A change of code that a workflow proposes (data part `code-edit`), read with care: any workflow may send anything. */
export interface CodeEdit {
  language: string;
  target: string;
  old: string;
  /** Nothing: no edit could be applied. */
  new: string | null;
  /** What the result's syntax is wrong in; empty where it is right or was not read. */
  errors: readonly string[];
  edits: readonly { state: string; reason: string }[];
}

/** The part's value if it is one, whatever a newer workflow may add. */
export function codeEdit(value: unknown): CodeEdit | undefined {
  const data = record(value);
  if (!data || typeof data.old !== 'string' || !(typeof data.new === 'string' || data.new === null || data.new === undefined)) return undefined;
  const syntax = record(data.syntax);
  return {
    language: text(data.language),
    target: text(data.target),
    old: data.old,
    new: data.new ?? null,
    errors: syntax?.ok === false ? list(syntax.errors).map(said) : [],
    edits: list(data.edits).flatMap((item) => {
      const edit = record(item);
      return edit ? [{ state: text(edit.state), reason: text(edit.reason) }] : [];
    }),
  };
}

const record = (value: unknown): Record<string, unknown> | undefined =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Record<string, unknown>) : undefined;
const text = (value: unknown): string => (typeof value === 'string' ? value : '');
const list = (value: unknown): unknown[] => (Array.isArray(value) ? value.slice(0, 100) : []);

function said(value: unknown): string {
  const error = record(value);
  if (!error) return text(value) || JSON.stringify(value);
  const line = typeof error.line === 'number' ? `line ${error.line}: ` : '';
  return `${line}${text(error.message) || text(error.text) || JSON.stringify(value)}`;
}
