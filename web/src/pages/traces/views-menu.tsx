/** What was asked, kept under a name for everyone in the project: chosen, saved, renamed, let go of. */
import { useQuery } from '@tanstack/react-query';
import { Bookmark, BookmarkPlus, Check, ChevronDown, Pencil, Save, Trash2 } from 'lucide-react';
import type { ReactNode } from 'react';
import { type Schemas, api } from '@/api/client';
import { queryClient } from '@/api/queries';
import { Button } from '@/components/button';
import { askText } from '@/components/confirm-dialog';
import { Menu, MenuItem, MenuLine, MenuTitle } from '@/components/menu';
import { tell, tellError } from '@/components/toast';
import { prose } from '@/lib/safe-text';
import { savedViewsQuery } from './queries';
import { isSame, readView, viewBody, type Asked, type Asking } from './query';

type View = Schemas['ViewView'];

const changed = () => queryClient.invalidateQueries({ queryKey: savedViewsQuery().queryKey });

async function kept(name: string, asked: Record<string, unknown>): Promise<View> {
  const view = await api('post', '/api/views', { body: { name, page: 'traces', body: asked as never } });
  await changed();
  return view;
}

async function saveAs(asked: Asked, ask: Asking['ask']): Promise<void> {
  const name = await askText({
    title: 'Save this view',
    text: 'Everyone in the project can choose it.',
    act: 'Save',
    value: '',
    label: 'Name',
  });
  if (!name) return;
  const view = await kept(name, viewBody(asked));
  ask(asked, { view: view.id, replace: true });
  tell(`Saved as “${name}”.`);
}

async function replace(view: View, name: string, asked: Record<string, unknown>): Promise<void> {
  await api('put', '/api/views/{view}', { path: { view: view.id }, body: { name, body: asked as never } });
  await changed();
}

async function rename(view: View): Promise<void> {
  const name = await askText({ title: 'Rename this view', act: 'Rename', value: view.name, label: 'Name' });
  if (name && name !== view.name) await replace(view, name, view.body);
}

async function save(view: View, asked: Asked): Promise<void> {
  await replace(view, view.name, viewBody(asked));
  tell(`“${view.name}” is now what you see.`, {
    action: { label: 'Undo', run: () => void replace(view, view.name, view.body).catch(tellError) },
  });
}

async function remove(view: View): Promise<void> {
  await api('delete', '/api/views/{view}', { path: { view: view.id } });
  await changed();
  tell(`“${view.name}” is deleted.`, {
    action: { label: 'Undo', run: () => void kept(view.name, view.body).catch(tellError) },
  });
}

export function ViewsMenu({ asking: { asked, view: chosen, ask } }: { asking: Asking }): ReactNode {
  const { data, error } = useQuery(savedViewsQuery());
  const all = data?.data ?? [];
  const current = all.find(({ id }) => id === chosen);
  const differs = current && !isSame(readView(current.body), asked);
  return (
    <Menu
      trigger={
        <Button look="quiet" aria-label={current ? `View ${prose(current.name)}` : 'Views'}>
          <Bookmark aria-hidden className="size-4" />
          <span className="max-w-40 truncate max-sm:hidden" dir="auto">
            {current ? prose(current.name) : 'Views'}
            {differs && <span className="text-faint"> (changed)</span>}
          </span>
          <ChevronDown aria-hidden className="size-3.5 text-faint max-sm:hidden" />
        </Button>
      }
    >
      {error && <MenuTitle>The views could not be read.</MenuTitle>}
      {all.length > 0 && <MenuTitle>Saved views</MenuTitle>}
      {all.map((view) => (
        <MenuItem
          key={view.id}
          icon={view.id === chosen ? <Check /> : <Bookmark />}
          onSelect={() => ask(readView(view.body), { view: view.id })}
        >
          <span className="block max-w-64 truncate" dir="auto">
            {prose(view.name)}
          </span>
        </MenuItem>
      ))}
      {all.length > 0 && <MenuLine />}
      <MenuItem icon={<BookmarkPlus />} onSelect={() => void saveAs(asked, ask).catch(tellError)}>
        Save as a new view…
      </MenuItem>
      {current && (
        <>
          {differs && (
            <MenuItem icon={<Save />} onSelect={() => void save(current, asked).catch(tellError)}>
              Save changes
            </MenuItem>
          )}
          <MenuItem icon={<Pencil />} onSelect={() => void rename(current).catch(tellError)}>
            Rename…
          </MenuItem>
          <MenuItem
            danger
            icon={<Trash2 />}
            onSelect={() => {
              ask(asked, { view: null, replace: true });
              void remove(current).catch(tellError);
            }}
          >
            Delete
          </MenuItem>
        </>
      )}
    </Menu>
  );
}
