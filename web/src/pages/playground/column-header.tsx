/** Header of a column: workflow, variant and parameters. */
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Columns2, MoreHorizontal, Save, SlidersHorizontal, Trash2, Plus } from 'lucide-react';
import { useState, type ReactNode } from 'react';
import { api, type Column } from '@/api/client';
import { variantsQuery, workflowQuery, workflowsQuery } from '@/api/queries';
import { useCommand } from '@/app/commands';
import { Button, IconButton } from '@/components/button';
import { Popover } from '@/components/dialog';
import { TextField } from '@/components/form-fields';
import { SchemaForm } from '@/components/forms/schema-form';
import { Menu, MenuItem, MenuLine, MenuTitle } from '@/components/menu';
import { Badge } from '@/components/status';
import { showToast, showError } from '@/components/toast';
import { useBoard, useBoardStore, freeId } from './board-store';

const SELECT = 'h-7 min-w-0 cursor-pointer truncate rounded-md bg-transparent px-1 hover:bg-sunken';

export function ColumnHeader({ column }: { column: Column }): ReactNode {
  const store = useBoardStore();
  const board = useBoard();
  const workflows = useQuery(workflowsQuery()).data?.data ?? [];
  const versions = useQuery(variantsQuery(column.workflow)).data?.data ?? [];
  const change = (patch: Partial<Column>) =>
    store.change((now) => ({
      ...now,
      columns: now.columns.map((one) => (one.id === column.id ? { ...one, ...patch } : one)),
    }));
  const duplicate = () =>
    store.change((now) => ({ ...now, columns: [...now.columns, { ...column, id: freeId('c', now.columns) }] }));
  const remove = () => store.change((now) => ({ ...now, columns: now.columns.filter((one) => one.id !== column.id) }));
  const choices = workflows.filter((one) => board.mode === 'single' || one.is_chat || one.name === column.workflow);
  return (
    <div className="flex h-10 min-w-0 items-center gap-1 px-2">
      <select
        aria-label="Workflow"
        className={`${SELECT} max-w-1/2 font-medium`}
        value={column.workflow}
        onChange={(event) => change({ workflow: event.target.value, variant: 'default', parameters: {} })}
      >
        {!choices.some((one) => one.name === column.workflow) && <option>{column.workflow}</option>}
        {choices.map((one) => (
          <option key={one.name}>{one.name}</option>
        ))}
      </select>
      {(versions.length > 1 || column.variant !== 'default') && (
        <select
          aria-label="Variant"
          className={`${SELECT} text-muted`}
          value={column.variant}
          onChange={(event) => change({ variant: event.target.value })}
        >
          {!versions.some((one) => one.name === column.variant) && <option>{column.variant}</option>}
          {versions.map((one) => (
            <option key={one.id}>{one.name}</option>
          ))}
        </select>
      )}
      <span className="grow" />
      <Parameters
        column={column}
        onChange={(parameters) => change({ parameters })}
        onSaved={(variant) => change({ variant, parameters: {} })}
      />
      <Menu
        trigger={
          <IconButton label="Column menu" size="small">
            <MoreHorizontal />
          </IconButton>
        }
      >
        <MenuItem icon={<Columns2 />} onSelect={duplicate} disabled={board.columns.length >= 8}>
          Duplicate column
        </MenuItem>
        <MenuLine />
        <MenuItem icon={<Trash2 />} danger onSelect={remove} disabled={board.columns.length < 2}>
          Remove column
        </MenuItem>
      </Menu>
    </div>
  );
}

interface ParametersProps {
  column: Column;
  onChange: (parameters: Record<string, unknown>) => void;
  onSaved: (variant: string) => void;
}

function Parameters({ column, onChange, onSaved }: ParametersProps): ReactNode {
  const { data } = useQuery(workflowQuery(column.workflow));
  const schema = data?.schemas.parameters as { properties?: object } | undefined;
  if (!schema || Object.keys(schema.properties ?? {}).length === 0) return null;
  const edits = Object.keys(column.parameters ?? {}).length;
  return (
    <Popover
      label="Parameters"
      width="w-96"
      trigger={
        <Button size="small" variant="quiet" aria-label={`Parameters${edits ? `, ${edits} changed` : ''}`}>
          <SlidersHorizontal className="size-3.5" />
          {edits > 0 && <Badge tone="accent">{edits}</Badge>}
        </Button>
      }
    >
      <h3 className="mb-3 font-semibold">
        Parameters of {column.workflow} <span className="font-normal text-muted">{column.variant}</span>
      </h3>
      <SchemaForm
        schema={schema}
        value={column.parameters ?? {}}
        placeholder={data?.parameters ?? {}}
        onChange={onChange}
      />
      {edits > 0 && <SaveVariantForm column={column} onSaved={onSaved} />}
    </Popover>
  );
}

/** Save edited parameters as a new version of the variant, or as another variant. */
function SaveVariantForm({ column, onSaved }: { column: Column; onSaved: (variant: string) => void }): ReactNode {
  const cache = useQueryClient();
  const variant = (column.variant ?? 'default').split(':')[0] ?? 'default';
  const [name, setName] = useState(variant === 'default' ? '' : variant);
  const save = async () => {
    const { data } = await api('get', '/api/workflows/{workflow}/variants', { path: { workflow: column.workflow } });
    const workflow = data.find((one) => one.name === name);
    const base = data.find((one) => one.name === variant);
    const before = base
      ? (
          await api('get', '/api/variants/{variant}/versions/{number}', {
            path: { variant: base.id, number: base.head },
          })
        ).parameters
      : {};
    const parameters = { ...(variant === 'default' ? {} : before), ...column.parameters };
    if (workflow)
      await api('post', '/api/variants/{variant}/versions', {
        path: { variant: workflow.id },
        body: { base: workflow.head, parameters },
      });
    else
      await api('post', '/api/workflows/{workflow}/variants', {
        path: { workflow: column.workflow },
        body: { name, parameters },
      });
    await cache.invalidateQueries({ queryKey: ['variants', column.workflow] });
    onSaved(name);
    showToast(workflow ? `Saved as version ${workflow.head + 1} of ${name}.` : `Saved as the variant ${name}.`);
  };
  return (
    <form
      className="mt-4 flex gap-2 border-t pt-3"
      onSubmit={(event) => {
        event.preventDefault();
        save().catch(showError);
      }}
    >
      <TextField
        aria-label="Name of the variant"
        placeholder="Name of the variant"
        value={name}
        onChange={(event) => setName(event.target.value)}
        pattern="[A-Za-z0-9][A-Za-z0-9_.\-]{0,63}"
        required
      />
      <Button type="submit" disabled={!name || name === 'default'}>
        <Save className="size-4" /> Save
      </Button>
    </form>
  );
}

/** Add a column with the same or another workflow. */
export function AddColumn(): ReactNode {
  const store = useBoardStore();
  const board = useBoard();
  const workflows = useQuery(workflowsQuery()).data?.data ?? [];
  const last = board.columns.at(-1);
  const add = (workflow: string, variant = 'default', parameters = {}) =>
    store.change((now) => ({
      ...now,
      columns: [...now.columns, { id: freeId('c', now.columns), workflow, variant, parameters }],
    }));
  useCommand(
    last && {
      id: 'add-variant',
      title: 'Add a variant',
      group: 'Chat',
      keys: 'alt+v',
      run: () => add(last.workflow, last.variant, last.parameters),
    },
  );
  return (
    <Menu
      trigger={
        <IconButton label="Add variant" size="small">
          <Plus />
        </IconButton>
      }
    >
      {last && (
        <>
          <MenuItem onSelect={() => add(last.workflow, last.variant, last.parameters)}>
            {last.workflow} once more
          </MenuItem>
          <MenuLine />
        </>
      )}
      <MenuTitle>Another workflow</MenuTitle>
      {workflows
        .filter((one) => board.mode === 'single' || one.is_chat)
        .map((one) => (
          <MenuItem key={one.name} onSelect={() => add(one.name)}>
            {one.name}
          </MenuItem>
        ))}
    </Menu>
  );
}
