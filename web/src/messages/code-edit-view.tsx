/** A proposed change of code: a diff, what rules found in it, and ways to take it. Fetched when the first one is shown. */
import { FileDiff } from 'lucide-react';
import { useMemo, useState, type ReactNode } from 'react';
import { classes } from '@/lib/class-names';
import { Badge } from '@/ui/bits';
import { Button } from '@/ui/button';
import { CopyButton } from '@/ui/copy-button';
import { ApplyView } from './apply-view';
import type { CodeEdit } from './code-edit-shape';
import { diffLines, patchOf, type Line } from './diff-lines';
import { FindingsView } from './findings-view';
import { CodeBlock } from './markdown/code-block';
import { exact, prose } from '@/lib/safe-text';

const MOST = 400;

export default function CodeEditView({ edit }: { edit: CodeEdit }): ReactNode {
  const lines = useMemo(() => diffLines(edit.old, edit.new ?? edit.old), [edit]);
  const failed = edit.edits.filter(({ state }) => state !== 'applied' && state !== 'unchanged');
  const code = edit.new;
  return (
    <figure className="overflow-hidden rounded-xl border bg-surface">
      <figcaption className="flex min-h-9 flex-wrap items-center gap-2 border-b py-1 pr-1 pl-3 text-[13px]">
        <span dir="auto" className="min-w-0 grow truncate font-medium">{exact(edit.target).slice(0, 200) || 'Code'}</span>
        {lines && <Counts lines={lines} />}
        {edit.errors.length > 0 && <Badge tone="warn">does not parse</Badge>}
        {failed.length > 0 && <Badge tone="bad">{failed.length} of {edit.edits.length} not applied</Badge>}
        {code !== null && (
          <span className="flex">
            <CopyButton label="Copy new code" text={() => code} />
            {lines && lines.length > 0 && <CopyButton label="Copy as patch" icon={<FileDiff />} text={() => patchOf(edit.target, edit.old, code)} />}
          </span>
        )}
      </figcaption>
      {lines === undefined && <CodeBlock text={edit.new ?? ''} language={edit.language} />}
      {lines?.length === 0 && <p className="px-3 py-2 text-muted">Nothing changes.</p>}
      {lines && lines.length > 0 && <Lines lines={lines} />}
      <Notes notes={[...edit.errors, ...failed.map((one) => one.reason || one.state)]} />
      <FindingsView findings={edit.findings} />
      <ApplyView edit={edit} />
    </figure>
  );
}

function Counts({ lines }: { lines: readonly Line[] }): ReactNode {
  const added = lines.filter((line) => line.kind === 'new').length;
  const removed = lines.filter((line) => line.kind === 'old').length;
  return <span className="shrink-0 font-mono text-xs"><span className="text-good">+{added}</span> <span className="text-bad">−{removed}</span></span>;
}

function Notes({ notes }: { notes: readonly string[] }): ReactNode {
  if (notes.length === 0) return null;
  return (
    <ul dir="auto" className="border-t px-3 py-2 text-[13px] wrap-anywhere text-muted">
      {[...new Set(notes)].slice(0, 10).map((note) => <li key={note}>{prose(note).slice(0, 500)}</li>)}
    </ul>
  );
}

const LOOKS = { same: '', old: 'bg-bad-soft', new: 'bg-good-soft', gap: 'text-faint' };
const MARKS = { same: ' ', old: '−', new: '+', gap: '⋯' };
const NUMBER = 'w-px px-2 text-right whitespace-nowrap text-faint select-none';

function Lines({ lines }: { lines: readonly Line[] }): ReactNode {
  const [most, setMost] = useState(MOST);
  return (
    <div dir="ltr" className="max-h-[32rem] overflow-auto">
      <table className="w-full border-collapse font-mono text-[13px] leading-relaxed">
        <tbody>
          {lines.slice(0, most).map((line, index) => (
            // oxlint-disable-next-line react/no-array-index-key -- the lines of one diff do not move
            <tr key={index} className={LOOKS[line.kind]}>
              <td className={NUMBER}>{line.before}</td>
              <td className={NUMBER}>{line.after}</td>
              <td className={classes('w-px pr-2 select-none', line.kind === 'new' && 'text-good', line.kind === 'old' && 'text-bad')}>{MARKS[line.kind]}</td>
              <td className="pr-3 whitespace-pre">{exact(line.text.slice(0, 2000))}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {lines.length > most && <Button look="quiet" onClick={() => setMost(most + MOST)}>Show more lines ({lines.length - most})</Button>}
    </div>
  );
}
