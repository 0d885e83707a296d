/** What to compare with: another variant of this evaluation, or another one of the same test set. */
import { useQuery } from '@tanstack/react-query';
import { ArrowLeftRight } from 'lucide-react';
import { useState, type ReactNode } from 'react';
import { useLocation } from 'wouter';
import { Button, IconButton } from '@/components/button';
import { Dialog } from '@/components/dialog';
import { Select, Labelled } from '@/components/form-fields';
import { ofTestset, type Evaluation } from '@/evaluations/queries';
import { titleOf } from '@/evaluations/words';
import { formatAge } from '@/lib/format';

interface Side {
  /** As the server reads it: `ev_…:variant`. */
  value: string;
  title: string;
  group: string;
}

export function CompareDialog({ evaluation, onClose }: { evaluation: Evaluation; onClose: () => void }): ReactNode {
  const [, navigate] = useLocation();
  const { data } = useQuery(ofTestset(evaluation.testset.id));
  const here: Side[] = evaluation.variants.map(({ name }) => ({ value: `${evaluation.id}:${name}`, title: name, group: 'This evaluation' }));
  const others = (data?.data ?? []).filter(({ id }) => id !== evaluation.id);
  const there: Side[] = others.flatMap((one) => one.variants.map((name) => ({ value: `${one.id}:${name}`, title: name, group: `${titleOf(one)} (${formatAge(one.created_at)})` })));
  const sides = [...here, ...there];
  const last = here.at(-1)?.value ?? '';
  const [chosen, setChosen] = useState<{ base?: string; candidate?: string }>({});
  const candidate = chosen.candidate ?? last;
  // With two variants the first is what the last is compared with; with one, what the same set gave before.
  const base = chosen.base ?? (here.length > 1 ? here[0]?.value : (there.find(({ title }) => title === here[0]?.title) ?? there[0])?.value) ?? '';
  const go = () => navigate(`/evaluations/compare?${new URLSearchParams({ base, candidate })}`);
  return (
    <Dialog open onClose={onClose} title="Compare" description="Row by row: is the candidate worse than the base?">
      <form className="flex flex-col gap-4 pt-2" onSubmit={(event) => { event.preventDefault(); go(); }}>
        <Choice label="Base" sides={sides} value={base} onChange={(value) => setChosen({ base: value, candidate })} />
        <div className="-my-3 flex justify-center"><IconButton label="Swap" size="small" onClick={() => setChosen({ base: candidate, candidate: base })}><ArrowLeftRight className="rotate-90" /></IconButton></div>
        <Choice label="Candidate" sides={sides} value={candidate} onChange={(value) => setChosen({ base, candidate: value })} />
        {sides.length < 2 && <p className="text-[13px] text-muted">There is nothing to compare with yet: run the same test set once more, or with another variant.</p>}
        <div className="flex justify-end gap-2">
          <Button onClick={onClose}>Cancel</Button>
          <Button look="main" type="submit" disabled={!base || !candidate || base === candidate}>Compare</Button>
        </div>
      </form>
    </Dialog>
  );
}

function Choice({ label, sides, value, onChange }: { label: string; sides: readonly Side[]; value: string; onChange: (value: string) => void }): ReactNode {
  const groups = [...new Set(sides.map(({ group }) => group))];
  return (
    <Labelled label={label}>
      <Select value={value} onChange={(event) => onChange(event.target.value)}>
        {!sides.some((one) => one.value === value) && <option value="">Choose…</option>}
        {groups.map((group) => (
          <optgroup key={group} label={group}>
            {sides.filter((one) => one.group === group).map((one) => <option key={one.value} value={one.value}>{one.title}</option>)}
          </optgroup>
        ))}
      </Select>
    </Labelled>
  );
}
