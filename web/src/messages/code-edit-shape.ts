/** A change of code that a workflow proposes (data part `code-edit`), read with care: any workflow may send anything. */
export interface CodeEdit {
  language: string;
  target: string;
  old: string;
  /** Nothing: no edit could be applied. */
  new: string | null;
  /** Where in the inputs the code came from, name by name (a JSON pointer on the wire); null: not told. */
  input: readonly string[] | null;
  /** What the result's syntax is wrong in; empty where it is right or was not read. */
  errors: readonly string[];
  edits: readonly { state: string; reason: string }[];
  /** What rules say of the result; null: none were asked. */
  findings: readonly Finding[] | null;
}

export interface Finding {
  rule: string;
  level: 'error' | 'warning' | 'note';
  line: number | null;
  message: string;
}

const LONGEST_POINTER = 500;

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
    input: pointed(data.input),
    errors: syntax?.ok === false ? list(syntax.errors).map(said) : [],
    edits: list(data.edits).flatMap((item) => {
      const edit = record(item);
      return edit ? [{ state: text(edit.state), reason: text(edit.reason) }] : [];
    }),
    findings: findingsIn(data.findings),
  };
}

/** The names of a JSON pointer (RFC 6901). */
function pointed(pointer: unknown): readonly string[] | null {
  if (typeof pointer !== 'string' || !pointer.startsWith('/') || pointer.length > LONGEST_POINTER) return null;
  return pointer.slice(1).split('/').map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~'));
}

function findingsIn(value: unknown): readonly Finding[] | null {
  if (!Array.isArray(value)) return null;
  const found = list(value).flatMap((item): Finding[] => {
    const finding = record(item);
    const message = text(finding?.message);
    if (!finding || message === '') return [];
    const { level, line } = finding;
    return [{
      rule: text(finding.rule),
      level: level === 'error' || level === 'warning' ? level : 'note',
      line: typeof line === 'number' && Number.isSafeInteger(line) && line > 0 ? line : null,
      message,
    }];
  });
  // A list of what cannot be read is not a list of nothing.
  return found.length === 0 && value.length > 0 ? null : found;
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
