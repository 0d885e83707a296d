/** What rules found in a proposed change: how bad, where, and what. */
import type { ReactNode } from 'react';
import { Badge } from '@/ui/bits';
import type { Finding } from './code-edit-shape';
import { exact, prose } from '@/lib/safe-text';

const TONES = { error: 'bad', warning: 'warn', note: 'plain' } as const;

export function FindingsView({ findings }: { findings: readonly Finding[] | null }): ReactNode {
  if (findings === null) return null;
  if (findings.length === 0) return <p className="border-t px-3 py-2 text-[13px] text-muted">Checked: no findings</p>;
  return (
    <ul aria-label="Findings" className="flex max-h-72 flex-col gap-1.5 overflow-y-auto border-t px-3 py-2 text-[13px]">
      {findings.map((finding, index) => (
        // oxlint-disable-next-line react/no-array-index-key -- the same may be found twice
        <li key={index} className="flex flex-wrap items-baseline gap-x-2 gap-y-0.5">
          <Badge tone={TONES[finding.level]}>{finding.level}</Badge>
          {finding.line !== null && <span className="shrink-0 text-muted tabular-nums">Line {finding.line}</span>}
          <span dir="auto" className="min-w-0 grow basis-48 wrap-anywhere">{prose(finding.message.slice(0, 500))}</span>
          {finding.rule && <code dir="ltr" className="min-w-0 font-mono text-xs wrap-anywhere text-muted">{exact(finding.rule.slice(0, 60))}</code>}
        </li>
      ))}
    </ul>
  );
}
