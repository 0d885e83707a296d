/** A proposed code edit: diff, findings and actions. A separate chunk, loaded for the first edit. */
import { FILE_HEADERS_ONLY, createTwoFilesPatch, structuredPatch } from 'diff';
import { FileDiff, Check } from 'lucide-react';
import { useMemo, useState, type ReactNode, useContext, useSyncExternalStore } from 'react';
import { Button, CopyButton } from '@/components/button';
import { askConfirmation } from '@/components/confirm-dialog';
import { CodeBlock } from '@/components/markdown/code-block';
import { Badge } from '@/components/status';
import { cn } from '@/lib/cn';
import { safeExact, safeProse } from '@/lib/safe-text';
import {
  type CodeEdit,
  type Finding,
  findEditTarget,
  textAt,
  withText,
  type Path,
  type EditTarget,
  InputsContext,
  type InputsAccess,
} from './code-edit';

const MAX_LINES = 400;

export default function CodeEditView({ edit }: { edit: CodeEdit }): ReactNode {
  const lines = useMemo(() => diffLines(edit.old, edit.new ?? edit.old), [edit]);
  const failed = edit.edits.filter(({ state }) => state !== 'applied' && state !== 'unchanged');
  const code = edit.new;
  return (
    <figure className="overflow-hidden rounded-xl border bg-surface">
      <figcaption className="flex min-h-9 flex-wrap items-center gap-2 border-b py-1 pr-1 pl-3 text-[13px]">
        <span dir="auto" className="min-w-0 grow truncate font-medium">
          {safeExact(edit.target).slice(0, 200) || 'Code'}
        </span>
        {lines && <ChangeCounts lines={lines} />}
        {edit.errors.length > 0 && <Badge tone="warn">Syntax error</Badge>}
        {failed.length > 0 && (
          <Badge tone="bad">
            {failed.length} of {edit.edits.length} not applied
          </Badge>
        )}
        {code !== null && (
          <span className="flex">
            <CopyButton label="Copy new code" text={() => code} />
            {lines && lines.length > 0 && (
              <CopyButton
                label="Copy as patch"
                icon={<FileDiff />}
                text={() => unifiedPatch(edit.target, edit.old, code)}
              />
            )}
          </span>
        )}
      </figcaption>
      {lines === undefined && <CodeBlock text={edit.new ?? ''} language={edit.language} />}
      {lines?.length === 0 && <p className="px-3 py-2 text-muted">No changes.</p>}
      {lines && lines.length > 0 && <DiffLines lines={lines} />}
      <Notes notes={[...edit.errors, ...failed.map(({ reason, state }) => reason || state)]} />
      <FindingsView findings={edit.findings} />
      <ApplyView edit={edit} />
    </figure>
  );
}

function ChangeCounts({ lines }: { lines: readonly DiffLine[] }): ReactNode {
  const added = lines.filter((line) => line.kind === 'new').length;
  const removed = lines.filter((line) => line.kind === 'old').length;
  return (
    <span className="shrink-0 font-mono text-xs">
      <span className="text-good">+{added}</span> <span className="text-bad">−{removed}</span>
    </span>
  );
}

function Notes({ notes }: { notes: readonly string[] }): ReactNode {
  if (notes.length === 0) return null;
  return (
    <ul dir="auto" className="border-t px-3 py-2 text-[13px] wrap-anywhere text-muted">
      {[...new Set(notes)].slice(0, 10).map((note) => (
        <li key={note}>{safeProse(note).slice(0, 500)}</li>
      ))}
    </ul>
  );
}

const LINE_CLASSES = { same: '', old: 'bg-bad-soft', new: 'bg-good-soft', gap: 'text-faint' };
const LINE_MARKS = { same: ' ', old: '−', new: '+', gap: '⋯' };
const NUMBER_CLASS = 'w-px px-2 text-right whitespace-nowrap text-faint select-none';

function DiffLines({ lines }: { lines: readonly DiffLine[] }): ReactNode {
  const [maxLines, setMaxLines] = useState(MAX_LINES);
  return (
    <div dir="ltr" className="max-h-[32rem] overflow-auto">
      <table className="w-full border-collapse font-mono text-[13px] leading-relaxed">
        <tbody>
          {lines.slice(0, maxLines).map((line, index) => (
            // oxlint-disable-next-line react/no-array-index-key -- the lines of one diff do not move
            <tr key={index} className={LINE_CLASSES[line.kind]}>
              <td className={NUMBER_CLASS}>{line.before}</td>
              <td className={NUMBER_CLASS}>{line.after}</td>
              <td
                className={cn(
                  'w-px pr-2 select-none',
                  line.kind === 'new' && 'text-good',
                  line.kind === 'old' && 'text-bad',
                )}
              >
                {LINE_MARKS[line.kind]}
              </td>
              <td className="pr-3 whitespace-pre">{safeExact(line.text.slice(0, 2000))}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {lines.length > maxLines && (
        <Button variant="quiet" onClick={() => setMaxLines(maxLines + MAX_LINES)}>
          Show more lines ({lines.length - maxLines})
        </Button>
      )}
    </div>
  );
}

const SEVERITY_TONES = { error: 'bad', warning: 'warn', note: 'plain' } as const;

/** Findings of rules: severity, position and text. */
export function FindingsView({ findings }: { findings: readonly Finding[] | null }): ReactNode {
  if (findings === null) return null;
  if (findings.length === 0) return <p className="border-t px-3 py-2 text-[13px] text-muted">No findings</p>;
  return (
    <ul aria-label="Findings" className="flex max-h-72 flex-col gap-1.5 overflow-y-auto border-t px-3 py-2 text-[13px]">
      {findings.map((finding, index) => (
        // oxlint-disable-next-line react/no-array-index-key -- the same finding may occur twice
        <li key={index} className="flex flex-wrap items-baseline gap-x-2 gap-y-0.5">
          <Badge tone={SEVERITY_TONES[finding.level]}>{finding.level}</Badge>
          {finding.line !== null && <span className="shrink-0 text-muted tabular-nums">Line {finding.line}</span>}
          <span dir="auto" className="min-w-0 grow basis-48 wrap-anywhere">
            {safeProse(finding.message.slice(0, 500))}
          </span>
          {finding.rule && (
            <code dir="ltr" className="min-w-0 font-mono text-xs wrap-anywhere text-muted">
              {safeExact(finding.rule.slice(0, 60))}
            </code>
          )}
        </li>
      ))}
    </ul>
  );
}

/** Applies the proposed code to the inputs, and reverts it. */
export function ApplyView({ edit }: { edit: CodeEdit }): ReactNode {
  const inputs = useContext(InputsContext);
  return inputs && <ApplyState edit={edit} inputs={inputs} />;
}

function ApplyState({ edit, inputs }: { edit: CodeEdit; inputs: InputsAccess }): ReactNode {
  const currentInputs = useSyncExternalStore(inputs.subscribe, inputs.read);
  const [lastPath, setLastPath] = useState<Path | null>(null);
  /** The text that was replaced; may differ from the old code. */
  const [replacedText, setReplacedText] = useState<string | null>(null);
  const target = findEditTarget(edit, { ...inputs.defaults(), ...currentInputs }, lastPath);
  if (target && target.path.join('\n') !== lastPath?.join('\n')) setLastPath(target.path);
  if (!target) return null;

  const writeText = (text: string) =>
    inputs.change((values) => withText({ ...defaultInputs(inputs, target.path), ...values }, target.path, text));
  const apply = async () => {
    if (target.state === 'changed' && !(await askConfirmation(CHANGED_TEXT))) return;
    setReplacedText(textAt({ ...inputs.defaults(), ...inputs.read() }, target.path));
    writeText(edit.new ?? '');
  };
  const undo = () => {
    writeText(replacedText ?? edit.old);
    setReplacedText(null);
  };
  const isApplied = target.state === 'applied';
  return (
    <div className="flex flex-wrap items-center gap-x-3 gap-y-1 border-t px-3 py-2 text-[13px]">
      {/* One button, so that the focus stays where it was. */}
      <Button size="small" variant={isApplied ? 'plain' : 'main'} onClick={() => (isApplied ? undo() : void apply())}>
        {isApplied ? 'Undo' : 'Apply'}
      </Button>
      <span role="status" className={cn('min-w-0 grow basis-48 wrap-anywhere', STATE_TONES[target.state])}>
        <ApplyStatus target={target} />
      </span>
    </div>
  );
}

const STATE_TONES = { ready: 'text-muted', applied: 'flex items-center gap-1.5 text-good', changed: 'text-warn' };

const CHANGED_TEXT = {
  title: 'Replace newer code?',
  text: 'This edit is based on an older version. It replaces the current code; you can undo this.',
  act: 'Apply anyway',
};

function ApplyStatus({ target: { state, path } }: { target: EditTarget }): ReactNode {
  const location = (
    <code dir="ltr" className="font-mono text-xs">
      {safeExact(path.join('.')).slice(0, 200)}
    </code>
  );
  switch (state) {
    case 'ready':
      return <>to input {location}</>;
    case 'applied':
      return (
        <>
          <Check aria-hidden className="size-3.5 shrink-0" />
          <span>Applied to {location}. Sent with your next message.</span>
        </>
      );
    case 'changed':
      return <>{location} has changed since this edit</>;
  }
}

/** Default of the top-level input of a path: setting a nested value starts from all of it. */
function defaultInputs(inputs: InputsAccess, [name = '']: Path): Record<string, unknown> {
  const defaults = inputs.defaults();
  return Object.hasOwn(defaults, name) ? { [name]: defaults[name] } : {};
}

export interface DiffLine {
  kind: 'same' | 'old' | 'new' | 'gap';
  /** Line numbers before and after; undefined on the side where the line is missing. */
  before?: number;
  after?: number;
  text: string;
}

const MAX_DIFF_LENGTH = 400_000;

/** Diff with three lines of context; undefined if the texts are too long. */
export function diffLines(oldText: string, newText: string): DiffLine[] | undefined {
  if (oldText.length + newText.length > MAX_DIFF_LENGTH) return undefined;
  const patch = structuredPatch('', '', oldText, newText, '', '', { context: 3, timeout: 500 });
  if (!patch) return undefined;
  const lines: DiffLine[] = [];
  for (const hunk of patch.hunks) {
    let before = hunk.oldStart;
    let after = hunk.newStart;
    if (lines.length > 0 || before > 1) lines.push({ kind: 'gap', text: '' });
    for (const line of hunk.lines) {
      const [mark, body] = [line[0], line.slice(1)];
      if (mark === '+') lines.push({ kind: 'new', after: after++, text: body });
      else if (mark === '-') lines.push({ kind: 'old', before: before++, text: body });
      else if (mark === ' ') lines.push({ kind: 'same', before: before++, after: after++, text: body });
    }
  }
  return lines;
}

/** A unified diff, as for `git apply`. */
export function unifiedPatch(name: string, oldText: string, newText: string): string {
  const file = name.replaceAll(/[\p{Cc}\p{Cf}\p{Z}]+/gu, '-').slice(0, 200) || 'code';
  return createTwoFilesPatch(`a/${file}`, `b/${file}`, oldText, newText, undefined, undefined, {
    context: 3,
    headerOptions: FILE_HEADERS_ONLY,
  });
}
