/** What was asked of a service, what it answered, and what follows from it. */
import { Check, TriangleAlert } from 'lucide-react';
import type { ReactNode } from 'react';
import { classes } from '@/lib/class-names';
import { dialectInWords, stepInWords, verdict, type Evidence, type Tried } from './evidence';

export function EvidenceView({ evidence }: { evidence: Evidence }): ReactNode {
  return (
    <div className="flex flex-col gap-3">
      <p>
        {verdict(evidence)}
        {evidence.dialect && <span className="text-muted"> It speaks: {dialectInWords(evidence.dialect)}.</span>}
        {evidence.streams === true && <span className="text-muted"> It streams.</span>}
      </p>
      {evidence.warnings.map((warning) => (
        <p key={warning} className="flex items-start gap-2 rounded-lg bg-warn-soft px-3 py-2 text-warn">
          <TriangleAlert aria-hidden className="mt-0.5 size-4 shrink-0" />
          <span className="min-w-0 wrap-anywhere" dir="auto">
            {warning}
          </span>
        </p>
      ))}
      <TriedTable tried={evidence.tried} decided={evidence.evidence} />
    </div>
  );
}

export function TriedTable({ tried, decided }: { tried: readonly Tried[]; decided?: string }): ReactNode {
  if (tried.length === 0) return null;
  return (
    <div className="overflow-x-auto rounded-lg border bg-surface">
      <table className="w-full text-left text-[13px]">
        <thead className="bg-sunken text-xs text-muted">
          <tr>
            <th className="px-3 py-1.5 font-medium">Looked at</th>
            <th className="px-3 py-1.5 font-medium">Asked</th>
            <th className="px-3 py-1.5 font-medium">Found</th>
          </tr>
        </thead>
        <tbody className="divide-y divide-line">
          {tried.map(({ step, request, status, found }) => (
            <tr key={`${step} ${request}`} className={classes('align-top', step === decided ? '' : 'text-muted')}>
              <td className="px-3 py-1.5">
                <span className="flex items-start gap-1.5">
                  {step === decided && <Check aria-label="This decided" className="mt-0.5 size-4 shrink-0 text-good" />}
                  {stepInWords(step)}
                </span>
              </td>
              <td className="px-3 py-1.5 font-mono text-xs leading-5 whitespace-nowrap">
                {request ?? 'nothing'}
                {request && <span className="text-faint"> → {status ?? 'no answer'}</span>}
              </td>
              <td className="min-w-40 px-3 py-1.5 wrap-anywhere" dir="auto">
                {found}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
