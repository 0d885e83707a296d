/** The foot of a proposed change: puts the new code in the place of the old among the inputs, and takes it back. */
import { Check } from 'lucide-react';
import { useContext, useState, useSyncExternalStore, type ReactNode } from 'react';
import { classes } from '@/lib/class-names';
import { askYes } from '@/ui/asking';
import { Button } from '@/ui/button';
import { standing, textAt, withText, type Path, type Standing } from './applying';
import type { CodeEdit } from './code-edit-shape';
import { InputsContext, type Inputs } from './inputs';
import { exact } from '@/lib/safe-text';

export function ApplyView({ edit }: { edit: CodeEdit }): ReactNode {
  const inputs = useContext(InputsContext);
  return inputs && <Applying edit={edit} inputs={inputs} />;
}

function Applying({ edit, inputs }: { edit: CodeEdit; inputs: Inputs }): ReactNode {
  const set = useSyncExternalStore(inputs.subscribe, inputs.read);
  const [last, setLast] = useState<Path | null>(null);
  /** What stood there when it was applied here: that may not have been the old code any more. */
  const [before, setBefore] = useState<string | null>(null);
  const now = standing(edit, { ...inputs.usual(), ...set }, last);
  if (now && now.path.join('\n') !== last?.join('\n')) setLast(now.path);
  if (!now) return null;

  const write = (text: string) => inputs.change((values) => withText({ ...defaultOf(inputs, now.path), ...values }, now.path, text));
  const apply = async () => {
    if (now.state === 'changed' && !(await askYes(CHANGED))) return;
    setBefore(textAt({ ...inputs.usual(), ...inputs.read() }, now.path));
    write(edit.new ?? '');
  };
  const undo = () => {
    write(before ?? edit.old);
    setBefore(null);
  };
  const isApplied = now.state === 'applied';
  return (
    <div className="flex flex-wrap items-center gap-x-3 gap-y-1 border-t px-3 py-2 text-[13px]">
      {/* One button, so that the focus stays where it was. */}
      <Button size="small" look={isApplied ? 'plain' : 'main'} onClick={() => (isApplied ? undo() : void apply())}>
        {isApplied ? 'Undo' : 'Apply'}
      </Button>
      <span role="status" className={classes('min-w-0 grow basis-48 wrap-anywhere', TONES[now.state])}>
        <Told standing={now} />
      </span>
    </div>
  );
}

const TONES = { ready: 'text-muted', applied: 'flex items-center gap-1.5 text-good', changed: 'text-warn' };

const CHANGED = {
  title: 'The code has changed since',
  text: 'This change was made from an older version. What is there now will be replaced; Undo brings it back.',
  act: 'Apply anyway',
};

function Told({ standing: { state, path } }: { standing: Standing }): ReactNode {
  const place = <code dir="ltr" className="font-mono text-xs">{exact(path.join('.')).slice(0, 200)}</code>;
  switch (state) {
    case 'ready':
      return <>to the input {place}</>;
    case 'applied':
      return <><Check aria-hidden className="size-3.5 shrink-0" /><span>Applied to {place}; the next question sends it</span></>;
    case 'changed':
      return <>{place} has changed since</>;
  }
}

/** An input that is not set yet begins with all of its default, of which this text is only a part. */
function defaultOf(inputs: Inputs, [name = '']: Path): Record<string, unknown> {
  const usual = inputs.usual();
  return Object.hasOwn(usual, name) ? { [name]: usual[name] } : {};
}
