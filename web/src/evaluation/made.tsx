/** What it was made of: the variants and evaluators as they were when it began. Folded, for who wants to know. */
import type { ReactNode } from 'react';
import type { Evaluation } from '@/evaluations/queries';
import { JsonView } from '@/components/json-view';
import { prose } from '@/lib/safe-text';
import { Section } from '@/components/collapsible';

export function Made({ evaluation }: { evaluation: Evaluation }): ReactNode {
  const { variants, evaluators, limits, selection } = evaluation;
  return (
    <div className="px-4 sm:px-6">
      <Section title="What it was made of">
        <div className="grid gap-4 py-1 pl-5 @3xl:grid-cols-2">
          <div className="min-w-0">
            <h3 className="text-[13px] font-medium text-muted">Variants</h3>
            {variants.map(({ name, workflow, variant, column, parameters, map }) => (
              <div key={name} className="mt-1 min-w-0">
                <p dir="auto" className="text-[13px] wrap-anywhere"><span className="font-medium">{prose(name)}</span> <span className="text-muted">{workflow ? [workflow, variant].filter(Boolean).join(', ') : `the column ${column}`}</span></p>
                {parameters && Object.keys(parameters).length > 0 && <JsonView value={parameters} />}
                <JsonView value={map} open={0} />
              </div>
            ))}
          </div>
          <div className="min-w-0">
            <h3 className="text-[13px] font-medium text-muted">Evaluators</h3>
            {evaluators.map(({ name, key, parameters }) => (
              <div key={name} className="mt-1 min-w-0">
                <p dir="auto" className="text-[13px] wrap-anywhere"><span className="font-medium">{prose(name)}</span> {name !== key && <span className="text-muted">{key}</span>}</p>
                {parameters && Object.keys(parameters).length > 0 && <JsonView value={parameters} />}
              </div>
            ))}
            <h3 className="mt-3 text-[13px] font-medium text-muted">Limits</h3>
            <JsonView value={selection ? { ...limits, rows: selection } : limits} />
          </div>
        </div>
      </Section>
    </div>
  );
}
